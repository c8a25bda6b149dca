// Package browser tries the dashboard in a browser: a headless Chromium, such as Debian's package chromium. It is a module of its own, so that
// nobody else downloads what drives one.
//
//	go test ./ratelimit/dashboard/browser
//
// Without a Chromium the tests are skipped, and fail where RATELIMIT_TEST_BROWSER is "require". With -shots the pictures of examples/shop are drawn anew.
package browser
