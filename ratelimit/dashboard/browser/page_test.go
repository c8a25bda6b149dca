package browser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/rlgen/rlgen/ratelimit/dashboard"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
)

// A call that is denied is on the page within two seconds, as the page's own clock measures it.
func TestDeniedCallAppears(t *testing.T) {
	s := serve(t, redistest.Start(t))
	p := open(t, s.url, 1280, "light").live()
	if got := p.text("#no-denied"); got != "Nobody was denied." {
		t.Errorf("before any call the page says %q, want that nobody was denied", got)
	}
	s.exhaust("alice")
	begin := time.Now()
	p.until("a denied id is listed", `document.querySelectorAll('#denied li').length === 1`)
	t.Logf("the denied call was on the page after %v", time.Since(begin))
	if got := p.text("#denied"); got == "" || len(p.bad) > 0 {
		t.Errorf("the page lists %q, and its script failed with %q", got, p.bad)
	}
}

// Whatever an id is, it is text on the page.
func TestHostileID(t *testing.T) {
	const hostile = `<script>alert(1)</script>`
	s := serve(t, redistest.Start(t), dashboard.WithClearIDs(), dashboard.WithWrites())
	p := open(t, s.url, 1280, "light").live()
	s.exhaust(hostile)
	p.until("the id is listed as it is", `document.querySelector('#denied .id') && document.querySelector('#denied .id').textContent === `+quote("user "+hostile))
	p.lookUp("orders.Orders.Create", "user", hostile)
	p.until("the id is looked up as it is", `document.querySelector('#found .who') && document.querySelector('#found .who').textContent === `+quote("user "+hostile))
	if n := eval[int](p, `document.querySelectorAll('main script, main img').length`); n != 0 || len(p.bad) > 0 {
		t.Errorf("the page has %d nodes of the id's making, and its script failed with %q", n, p.bad)
	}
	if url := eval[string](p, `location.href + performance.getEntriesByType('resource').map(e => e.name).join(' ')`); containsAny(url, "script%3E", "alert", hostile) {
		t.Errorf("the id is in a URL: %s", url)
	}
}

// An override that is made on the page holds for the next call.
func TestOverrideHoldsForTheNextCall(t *testing.T) {
	s := serve(t, redistest.Start(t), dashboard.WithWrites())
	s.exhaust("alice")
	p := open(t, s.url, 1280, "light").live()
	p.do(
		chromedp.Click(`button[data-limit="orders.Orders.Create Create/user"]`),
		chromedp.Click(`//div[@class="detail" and not(@hidden)]//button[text()="Override…"]`, chromedp.BySearch),
		chromedp.SetValue(`#ask-fields input`, "50,10s", chromedp.ByQuery),
		chromedp.Click(`#ask-yes`),
	)
	p.until("the page says that it is done", `!document.querySelector('#said').hidden`)
	if !s.order("alice") {
		t.Error("the order behind the override of 50,10s is denied, want it to pass")
	}
	p.until("the page shows the override", `(document.querySelector('.row code.override') || {textContent: ''}).textContent.includes('50,10s')`)
	p.until("and lists the change", `document.querySelector('#changes li') !== null`)
}

// A connection that is lost is said to be, and found again.
func TestConnectionLostAndFound(t *testing.T) {
	s := serve(t, redistest.Start(t))
	p := open(t, s.url, 1280, "light").live()
	s.away.Store(true)
	s.page.CloseClientConnections()
	p.until("the page says that the connection is lost", `document.querySelector('#live').dataset.state === 'lost' && document.body.classList.contains('stale')`)
	s.away.Store(false)
	p.live()
	s.order("alice")
	p.until("the page shows what comes then", `document.querySelector('.row[role=row] .num.allowed:not([data-zero])') !== null`)
}

// The page fits its window in both widths, in both themes, and all of it is reached by the keyboard.
func TestWidthsAndThemes(t *testing.T) {
	s := serve(t, redistest.Start(t), dashboard.WithWrites())
	s.exhaust("alice")
	grounds := map[string]bool{}
	for _, width := range []int64{1280, 400} {
		for _, theme := range []string{"light", "dark"} {
			t.Run(fmt.Sprint(theme, width), func(t *testing.T) {
				p := open(t, s.url, width, theme).live()
				p.do(chromedp.Evaluate(`document.querySelectorAll('button[data-limit]').forEach(b => b.click())`, nil))
				if over := eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
					t.Errorf("the page is %d pixels wider than the window, want no more than it", over)
				}
				grounds[eval[string](p, `getComputedStyle(document.body).backgroundColor`)] = true
				if n := eval[int](p, `[...document.querySelectorAll('main button, main input, main select, main [tabindex="0"]')].filter(e => e.tabIndex < 0).length`); n > 0 {
					t.Errorf("%d controls cannot be reached by the keyboard", n)
				}
			})
		}
	}
	if len(grounds) != 2 && !t.Skipped() {
		t.Errorf("both themes have the grounds %v, want one each", grounds)
	}
}
