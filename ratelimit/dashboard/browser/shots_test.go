package browser_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/rlgen/rlgen/ratelimit/dashboard"
	"github.com/rlgen/rlgen/ratelimit/override/redisoverride"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

var shots = flag.String("shots", "", "write pictures of the page into this `directory`, such as ../../../examples/shop")

// The pictures of examples/shop.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("no -shots")
	}
	server := redistest.Start(t)
	s, other := serve(t, server, dashboard.WithWrites()), serve(t, server, dashboard.WithInstance("shop-2"))
	if err := redisoverride.Set(t.Context(), server.Client(t), "orders.Orders.Search", "30,1m"); err != nil {
		t.Fatal(err)
	}
	for i, view := range []struct {
		name  string
		width int64
		theme string
	}{{"dashboard-light", 1280, "light"}, {"dashboard-dark", 1280, "dark"}, {"dashboard-narrow", 400, "light"}} {
		p := open(t, s.url, view.width, view.theme).live()
		for seconds := range 20 {
			for n := range 30 + 10*(seconds%5) {
				s.order(fmt.Sprintf("user-%d", (n*n+i)%23))
				other.call("Search", fmt.Sprintf("user-%d", n%7), "")
				s.call("Find", fmt.Sprintf("user-%d", n%5), "pro")
			}
			p.until("a second passes", fmt.Sprintf(`now > %d`, eval[int64](p, "now")))
		}
		p.do(chromedp.Click(`button[data-limit="orders.Orders.Create Create/user"]`))
		p.lookUp("orders.Orders.Create", "user", "user-9")
		p.until("the id is found", `document.querySelector('#found .rule') !== null`)
		p.do(chromedp.Evaluate(`document.activeElement.blur(); scrollTo(0, 0)`, nil))
		var png []byte
		if view.width < 1000 {
			p.do(chromedp.CaptureScreenshot(&png)) // what is in the window
		} else {
			p.do(chromedp.FullScreenshot(&png, 100))
		}
		if err := os.WriteFile(filepath.Join(*shots, view.name+".png"), png, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
