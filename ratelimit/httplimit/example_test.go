package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
	"github.com/rlgen/rlgen/ratelimit/ratelimittest"
	"github.com/rlgen/rlgen/rules"
)

// carts stands for the wrapper that rlgen writes for a service with
//
//	//ratelimit:user 2,1m
//	Add(ctx context.Context, item string) error
type carts struct{ add *ratelimit.Guard }

func newCarts(limiter *ratelimit.Limiter) *carts {
	return &carts{add: limiter.Guard(&rules.Policy{
		Package: "example.com/shop", Type: "shop.Carts", Method: "Add",
		Limits: []rules.Limit{{Kind: rules.User, Rules: []rules.Rule{{Count: 2, Window: time.Minute}}}},
	})}
}

func (c *carts) Add(ctx context.Context, item string) (err error) {
	_, err = c.add.Take(ctx)
	return err
}

func Example() {
	limiter, _ := ratelimittest.New()
	carts := newCarts(limiter)

	mux := http.NewServeMux()
	mux.HandleFunc("POST /cart/{item}", func(w http.ResponseWriter, r *http.Request) {
		err := carts.Add(r.Context(), r.PathValue("item"))
		switch {
		case httplimit.WriteError(w, r, err):
		case err != nil:
			http.Error(w, "cannot add to the cart", http.StatusInternalServerError)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	identify := httplimit.Identify(httplimit.WithUserFunc(func(r *http.Request) string {
		user, _, _ := r.BasicAuth() // a real program checks the password first
		return user
	}))
	server := httptest.NewServer(identify(mux))
	defer server.Close()

	post := func(user string) {
		r, _ := http.NewRequest("POST", server.URL+"/cart/tea", nil)
		if user != "" {
			r.SetBasicAuth(user, "")
		}
		res, err := server.Client().Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		fmt.Printf("%q: %d, Retry-After %q\n%s", user, res.StatusCode, res.Header.Get("Retry-After"), body)
	}
	post("alice")
	post("alice")
	post("alice")
	post("bob")
	post("")
	// Output:
	// "alice": 201, Retry-After ""
	// "alice": 201, Retry-After ""
	// "alice": 429, Retry-After "60"
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"The rate limit is exceeded.","limit":"Add","violated-policies":["Add"],"retry_after":60}
	// "bob": 201, Retry-After ""
	// "": 401, Retry-After ""
	// {"title":"Unauthorized","status":401,"detail":"The request does not say who is calling."}
}

// One import of a shop at a time, in all instances; behind the route stands no method that rlgen could wrap.
func ExampleLimit() {
	limiter, _ := ratelimittest.New() // a real program's limiter has ratelimit.WithLocks, with a store of redislock
	oneImport := limiter.Guard(&rules.Policy{
		Package: "example.com/shop", Type: "shop.Routes", Method: "Import",
		Limits: []rules.Limit{{Kind: rules.Lock, By: "shop"}},
	})
	shop := httplimit.WithInputs(func(r *http.Request) []ratelimit.Input {
		in := make([]ratelimit.Input, 1)
		in[0].By(r.PathValue("shop"))
		return in
	})

	running, end := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("POST /shops/{shop}/import", httplimit.Limit(oneImport, shop)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running <- struct{}{}
		select {
		case <-end:
			fmt.Fprintln(w, "imported")
		case <-r.Context().Done(): // the client is gone, or the lock is lost
		}
	})))
	server := httptest.NewServer(mux)
	defer server.Close()
	post := func(path string) {
		res, err := server.Client().Post(server.URL+path, "", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer res.Body.Close()
		fmt.Println(path, res.StatusCode)
	}

	var first sync.WaitGroup
	first.Go(func() { post("/shops/tea/import") })
	<-running
	post("/shops/tea/import")
	end <- struct{}{}
	first.Wait()
	// Output:
	// /shops/tea/import 429
	// /shops/tea/import 200
}
