// Package redistest starts real Redis servers for tests: alone, as a cluster, and watched by sentinels.
//
// The servers are those of the redis-server in PATH, on free loopback ports, in directories of their
// own. If it is not installed, the test is skipped, or fails with RLGEN_TEST_REQUIRE=1.
//
// [Standalone], [NewCluster] and [NewSentinel] are started once for all tests of a package, which must end with
// [Main]; [Start] starts one for a test that stops or freezes it. A server ends with the process that started it,
// however that ends.
//
// A [Proxy] before a server loses commands, replies and connections as a test says.
package redistest
