package browser_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/rlgen/rlgen/testdata/suite"
)

// patience is how long a test waits for what a busy machine may take long for.
const patience = 30 * time.Second

// chromium is the browser of all tests. The first test that needs it starts it, and TestMain ends it.
var chromium struct {
	start sync.Once
	ctx   context.Context
	err   error
	end   context.CancelFunc
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.end != nil {
		chromium.end()
	}
	os.Exit(code)
}

// browser returns the context of the running browser. It skips the test if there is no Chromium.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := suite.Program(t, "chromium", "chromium-browser", "google-chrome")
	chromium.start.Do(func() {
		opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(patience))
		allocator, stop := chromedp.NewExecAllocator(context.Background(), opts...)
		ctx, end := chromedp.NewContext(allocator)
		chromium.ctx, chromium.end = ctx, func() { end(); stop() }
		chromium.err = chromedp.Run(ctx)
	})
	if chromium.err != nil {
		t.Fatalf("chromium does not start: %v", chromium.err)
	}
	return chromium.ctx
}

// tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context
	bad []string // what the console complains of
}

// open opens a page of some width in one of the themes.
func open(t *testing.T, url string, width int64, theme string) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser(t))
	ctx, cancel := context.WithTimeout(ctx, 3*patience)
	t.Cleanup(func() { end(); cancel() })
	p := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			p.bad = append(p.bad, e.ExceptionDetails.Error())
		}
	})
	p.do(
		chromedp.EmulateViewport(width, 900),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}),
		chromedp.Navigate(url),
	)
	return p
}

func (p *tab) do(actions ...chromedp.Action) {
	p.t.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.t.Fatalf("%v; the page says:\n%s", err, p.text("body"))
	}
}

// until waits for a JavaScript expression to be true, and fails the test where it does not become so.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	err := chromedp.Run(p.ctx, chromedp.Poll(expression, nil, chromedp.WithPollingTimeout(patience), chromedp.WithPollingMutation()))
	if err != nil {
		p.t.Fatalf("%s: %v; the page says:\n%s", what, err, p.text("body"))
	}
}

// eval is the value of a JavaScript expression.
func eval[T any](p *tab, expression string) (v T) {
	p.t.Helper()
	if err := chromedp.Run(p.ctx, chromedp.Evaluate(expression, &v)); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text is what stands in the first node of a selector.
func (p *tab) text(selector string) string {
	var text string
	_ = chromedp.Run(p.ctx, chromedp.Evaluate(`(document.querySelector(`+quote(selector)+`) || {}).innerText || ''`, &text))
	return strings.TrimSpace(text)
}

// live waits until the page shows a snapshot.
func (p *tab) live() *tab {
	p.t.Helper()
	p.until("the page is live", `document.querySelector('#live').dataset.state === 'live'`)
	return p
}

// lookUp asks for an id.
func (p *tab) lookUp(method, kind, id string) {
	p.t.Helper()
	choose := func(selector, value string) string {
		return `(() => { const s = document.querySelector(` + quote(selector) + `); s.value = ` + quote(value) + `; s.dispatchEvent(new Event('change')); })()`
	}
	p.do(
		chromedp.Evaluate(choose("#look-method", method), nil),
		chromedp.Evaluate(choose("#look-kind", kind), nil),
		chromedp.SetValue("#look-id", id, chromedp.ByQuery),
		chromedp.Click("#look button[type=submit]", chromedp.ByQuery),
	)
}

func containsAny(text string, parts ...string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}
