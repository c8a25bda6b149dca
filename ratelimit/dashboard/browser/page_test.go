package browser_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/dashboard"
	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/testdata/suite"
)

// TestDeniedCallAppears checks that denied calls appear on an open page. The dashboard's own tests check that the next
// snapshot has them.
func TestDeniedCallAppears(t *testing.T) {
	s := serve(t, redistest.Start(t))
	p := open(t, s.url, 1280, "light").live()
	if got := p.text("#no-denied"); got != "Nobody was denied." {
		t.Errorf("before any call the page says %q, want that nobody was denied", got)
	}
	for n := range 2 {
		s.exhaust(fmt.Sprint("user-", n))
		p.until("a denied id is listed", fmt.Sprintf(`document.querySelectorAll('#denied li').length === %d`, n+1))
	}
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

// Times are UTC, and say so, wherever who looks is.
func TestTimesAreUTC(t *testing.T) {
	s, begin := serve(t, redistest.Start(t), dashboard.WithWrites()), time.Now().Truncate(time.Second)
	if w := s.post("change", `{"do":"reset","method":"orders.Orders.Create","kind":"user","id":"alice"}`); w != 200 {
		t.Fatalf("a reset = %d, want 200", w)
	}
	p := open(t, s.url, 1280, "light")
	p.do(emulation.SetTimezoneOverride("Asia/Tokyo"), chromedp.Reload())
	p.live().lookUp("orders.Orders.Create", "user", "alice")
	p.until("the change is listed, and the id is found", `document.querySelector('#changes li') && document.querySelector('#found .soft')`)
	p.do(chromedp.Focus("#calls .plot", chromedp.ByQuery), chromedp.KeyEvent(kb.ArrowLeft))
	p.until("the chart is read", `!document.querySelector('#calls .read').hidden && document.querySelector('#calls .read').textContent !== ''`)
	for where, want := range map[string]string{
		"#changes .what": `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$`, "#found .soft": ` \d\d:\d\d:\d\d UTC$`, "#calls .read": `^\d\d:\d\d:\d\d UTC `,
	} {
		if got := p.text(where); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s says %q, want %s", where, got, want)
		}
	}
	if at, err := time.Parse("2006-01-02 15:04:05 MST", p.text("#changes .what")); err != nil || at.Before(begin) || at.After(time.Now()) {
		t.Errorf("the change was at %q (%v), want a time since %v in UTC", p.text("#changes .what"), err, begin.UTC())
	}
}

// An id is looked up as it is written, however long it is.
func TestLongID(t *testing.T) {
	s := serve(t, redistest.Start(t))
	long := strings.Repeat("x", 10_000)
	s.exhaust(long)
	p := open(t, s.url, 400, "light").live()
	p.do(chromedp.Evaluate(`document.querySelector('#look-method').value = 'orders.Orders.Create'; document.querySelector('#look-method').dispatchEvent(new Event('change')); document.querySelector('#look-kind').value = 'user'`, nil),
		chromedp.Focus("#look-id", chromedp.ByQuery), input.InsertText(long), chromedp.Click("#look button[type=submit]", chromedp.ByQuery))
	p.until("the id is found, and has nothing left", `document.querySelector('#found .left') && document.querySelector('#found .left').textContent.startsWith('0 of 3 left')`)
	if over := eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		t.Errorf("the page is %d pixels wider than the window, want no more than it", over)
	}
	if got := p.text("#found .who"); got != "user "+long[:100]+"… (10000 characters)" {
		t.Errorf("the id is called %.300q, want its beginning, and how long it is", got)
	}
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
			p := open(t, s.url, width, theme).live()
			p.do(chromedp.Evaluate(`document.querySelectorAll('button[data-limit]').forEach(b => b.click())`, nil))
			if over := eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
				t.Errorf("%s, %d: the page is %d pixels wider than the window, want no more than it", theme, width, over)
			}
			grounds[eval[string](p, `getComputedStyle(document.body).backgroundColor`)] = true
			if n := eval[int](p, `[...document.querySelectorAll('main button, main input, main select, main [tabindex="0"]')].filter(e => e.tabIndex < 0).length`); n > 0 {
				t.Errorf("%s, %d: %d controls cannot be reached by the keyboard", theme, width, n)
			}
		}
	}
	if len(grounds) != 2 {
		t.Errorf("both themes have the grounds %v, want one each", grounds)
	}
}

// A page that the server refuses says why, and is live once it may be.
func TestRefusedPageSaysWhy(t *testing.T) {
	s := serve(t, redistest.Start(t), dashboard.WithStreams(1))
	first := open(t, s.url, 1280, "light").live()
	p := open(t, s.url, 1280, "light")
	p.until("the page says why it is not live", `document.querySelector('#live-text').textContent.startsWith('Not connected: as many pages are open on this instance as may be. Trying again in ')`)
	first.do(chromedp.Navigate("about:blank"))
	p.live()
}

// The keyboard does all: it filters, opens a limit, overrides it in a dialog, leaves that by Escape, reads the chart second by second, and looks up an id.
func TestKeyboard(t *testing.T) {
	s := serve(t, redistest.Start(t), dashboard.WithWrites())
	p := open(t, s.url, 1280, "light").live()
	focused := func(what, expression string) {
		t.Helper()
		p.until(what, `document.activeElement && (`+expression+`)`)
	}
	// tab presses Tab until the expression is true of the focused element.
	tab := func(what, expression string) {
		t.Helper()
		for range 60 {
			p.do(chromedp.KeyEvent(kb.Tab))
			if eval[bool](p, `document.activeElement !== null && (`+expression+`)`) {
				return
			}
		}
		t.Fatalf("Tab does not reach %s", what)
	}
	p.do(input.DispatchKeyEvent(input.KeyDown).WithKey("/").WithCode("Slash"), input.DispatchKeyEvent(input.KeyUp).WithKey("/").WithCode("Slash")) // without a character, which is none once the page has taken the key
	focused("/ leads to the filter", `document.activeElement.id === 'filter'`)
	p.do(chromedp.KeyEvent("create/user"))
	p.until("one limit is left", `[...document.querySelectorAll('#rows .row')].filter(r => !r.hidden).length === 1`)
	tab("the limit", `document.activeElement.dataset.limit === 'orders.Orders.Create Create/user'`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until("its detail is open", `document.activeElement.getAttribute('aria-expanded') === 'true' && document.querySelector('.detail:not([hidden]) .facts') !== null`)
	tab("its chart", `document.activeElement.className === 'plot'`)
	p.do(chromedp.KeyEvent(kb.ArrowLeft))
	p.until("the chart reads a second", `/\d+ allowed/.test(document.activeElement.querySelector('.read').textContent) && !document.activeElement.querySelector('.read').hidden`)
	tab("its override", `document.activeElement.textContent === 'Override…'`)
	p.do(chromedp.KeyEvent(kb.Enter))
	focused("the dialog has the focus", `document.querySelector('#ask').open && document.querySelector('#ask').contains(document.activeElement)`)
	p.do(chromedp.KeyEvent(kb.Escape))
	focused("Escape leads back to the button", `!document.querySelector('#ask').open && document.activeElement.textContent === 'Override…'`)
	p.do(chromedp.KeyEvent(kb.Enter))
	focused("the dialog is open again", `document.activeElement.name === 'text' || document.querySelector('#ask').contains(document.activeElement)`)
	p.do(chromedp.Focus(`#ask-fields input`), chromedp.KeyEvent("7,10s"), chromedp.KeyEvent(kb.Enter))
	p.until("the override holds and the dialog is closed", `!document.querySelector('#ask').open && (document.querySelector('.row code.override') || {textContent: ''}).textContent.includes('7,10s')`)
	tab("the id", `document.activeElement.id === 'look-id'`)
	p.do(chromedp.KeyEvent("alice"), chromedp.KeyEvent(kb.Enter))
	p.until("the id is found", `document.querySelector('#found .rule') !== null`)
}

// What another instance counts of a limit that this one does not know is told.
func TestLimitsOfOthers(t *testing.T) {
	server := redistest.Start(t)
	s := serve(t, server)
	client := server.Client(t)
	counts, err := redisstore.New(client, redisstore.WithBudget(time.Minute)) // no call fails since the machine is busy
	if err != nil {
		t.Fatal(err)
	}
	seen := dashboard.NewObserver()
	limiter, err := ratelimit.New(counts, ratelimit.WithObserver(seen))
	if err != nil {
		t.Fatal(err)
	}
	guard := limiter.Guard(policy(t, "Return", []string{"global 100,1h"}))
	newer, err := dashboard.New(limiter, seen, dashboard.WithService("shop"), dashboard.WithRedis(client))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = newer.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	p := open(t, s.url, 1280, "light").live()
	if _, err := guard.Take(ctx); err != nil {
		t.Fatal(err)
	}
	p.until("the limit of the newer instance is told of", `!document.querySelector('#others').hidden && document.querySelector('#others').textContent.includes('orders.Orders.Return · Return (1 allowed, 0 denied')`)
	p.until("and that there are two versions", `document.querySelector('#scope .text').textContent.includes('2 versions of the rules')`)
}

// TestFewAndManyLimits checks the page of a service with one limit that nobody calls, and with many limits that have long
// names, on a narrow screen. The filter leaves the limits that match.
func TestFewAndManyLimits(t *testing.T) {
	many := 50
	if suite.Long() {
		many = 200
	}
	for _, limits := range []int{1, many} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			seen := dashboard.NewObserver()
			limiter, err := ratelimit.New(memstore.New(), ratelimit.WithObserver(seen))
			if err != nil {
				t.Fatal(err)
			}
			for n := range limits {
				limiter.Guard(policy(t, fmt.Sprintf("M%03d%s", n, strings.Repeat("Long", 20)), []string{"user 3,10s 100,1h"}))
			}
			board, err := dashboard.New(limiter, seen)
			if err != nil {
				t.Fatal(err)
			}
			page := httptest.NewServer(board)
			t.Cleanup(func() { board.Close(); page.Close() })
			p := open(t, page.URL+"/", 400, "dark").live()
			if got := eval[int](p, `document.querySelectorAll('#rows .row').length`); got != limits {
				t.Errorf("the page has %d limits, want %d", got, limits)
			}
			p.do(chromedp.Evaluate(`document.querySelectorAll('button[data-limit]').forEach(b => b.click())`, nil))
			if over := eval[int](p, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
				t.Errorf("the page is %d pixels wider than the window, want no more than it", over)
			}
			if got := p.text("#rows .num.allowed"); got != "0" || p.text("#no-denied") != "Nobody was denied." {
				t.Errorf("the page has %q allowed calls each second, and %q, want nobody's", got, p.text("#no-denied"))
			}
			p.do(chromedp.SendKeys("#filter", "m000", chromedp.ByQuery))
			p.until("the filter leaves one", `document.querySelectorAll('#rows .row:not([hidden])').length === 1 && document.querySelectorAll('#rows .method:not([hidden])').length === 1`)
			if len(p.bad) > 0 {
				t.Errorf("the page's script failed with %q", p.bad)
			}
		})
	}
}
