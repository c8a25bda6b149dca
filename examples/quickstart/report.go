package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit"
)

// report is a [ratelimit.Observer] that keeps a row for each decision.
type report struct {
	user, addr string // who calls next
	rows       []row
}

type row struct {
	user, addr string
	decision   ratelimit.Decision
}

func (r *report) caller(user, addr string) { r.user, r.addr = user, addr }

// Observe keeps the decision. The quickstart calls from one goroutine, so no lock is needed.
func (r *report) Observe(_ context.Context, d *ratelimit.Decision, _ error) {
	r.rows = append(r.rows, row{r.user, r.addr, *d})
}

func (r *report) print(out io.Writer) {
	if len(r.rows) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	policy := r.rows[0].decision.Policy
	fmt.Fprint(w, "\t\t\t\tLEFT AFTER THE CALL\n")
	fmt.Fprintf(w, "USER\tADDRESS\tCALL\tANSWER")
	for _, limit := range policy.Limits {
		for _, rule := range limit.Rules {
			fmt.Fprintf(w, "\t%v %v", limit.Kind, rule)
		}
	}
	fmt.Fprintln(w)
	for _, row := range r.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s", row.user, row.addr, policy.Method, answer(&row.decision))
		for _, limit := range row.decision.Limits {
			for _, rule := range limit.Rules {
				fmt.Fprintf(w, "\t%d", rule.Remaining)
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

// answer says in words what was decided.
func answer(d *ratelimit.Decision) string {
	if d.Allowed {
		return "allowed"
	}
	text := "denied by"
	for _, limit := range d.Limits {
		for _, rule := range limit.Rules {
			if !rule.Allowed {
				text += fmt.Sprintf(" %v %v", d.Policy.Limits[limit.Index].Kind, rule.Rule)
			}
		}
	}
	return fmt.Sprintf("%s, retry in %v", text, d.RetryAfter.Round(10*time.Millisecond))
}

// keys returns the keys of the quickstart that are in Redis, sorted.
func keys(ctx context.Context, client *redis.Client) ([]string, error) {
	var keys []string
	found := client.Scan(ctx, 0, "rl:*:shop.Orders-*", 100).Iterator()
	for found.Next(ctx) {
		keys = append(keys, found.Val())
	}
	slices.Sort(keys)
	return slices.Compact(keys), found.Err() // a scan may find a key twice
}

// printKeys prints the keys of the quickstart as they stand in Redis.
func printKeys(ctx context.Context, out io.Writer, client *redis.Client) error {
	found, err := keys(ctx, client)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY IN REDIS\tCALLS ON RECORD\tGONE IN")
	for _, key := range found {
		n, err := client.ZCard(ctx, key).Result()
		if err != nil {
			return err
		}
		ttl, err := client.PTTL(ctx, key).Result()
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%d\t%v\n", key, n, ttl.Round(time.Second))
	}
	return w.Flush()
}
