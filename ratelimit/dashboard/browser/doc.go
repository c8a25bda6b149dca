// Package browser tries the dashboard in a browser: a headless Chromium, such as Debian's package chromium. It is a module of its own, so that
// nobody else downloads what drives one.
//
//	go test ./ratelimit/dashboard/browser
//
// Without Chromium or redis-server the tests skip; with RLGEN_TEST_REQUIRE=1 they fail. The flag -shots draws the pictures
// of examples/shop anew.
package browser
