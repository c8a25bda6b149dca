package redisstore_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/rlgen/rlgen/testdata/suite"
)

// whole makes TestFaults run the tests that stand elsewhere, too, so that its table has a result for every fault:
//
//	go test ./ratelimit/redisstore -run '^TestFaults$' -v -table
var whole = flag.Bool("table", false, "TestFaults: run the tests of faults that stand elsewhere, too")

// A row is one fault of production, and what holds all the same. Of produce, test and not it has one.
type row struct {
	fault     string
	invariant string

	long    string                    // why only the long suite produces the fault
	produce func(t *testing.T) string // produces the fault, fails unless the invariant holds, and returns what happened
	test    string                    // the tests of this package that do, which stand elsewhere
	not     string                    // why there is no such test
}

// faultMatrix is what happens to those who use Redis in production. The budget of calls is 10 s, so that a busy machine
// changes no outcome, where a row does not say otherwise.
var faultMatrix = []row{
	// Transport and client
	{fault: "reply lost after execution", invariant: "executed at most once, by all clients; indeterminate", test: "TestLostReply"},
	{fault: "reply lost of a script that many share", invariant: "executed at most once; indeterminate for each; one failure to the breaker", test: "TestFaultsOfACrowd"},
	{fault: "one of many who share a script leaves, or fails", invariant: "the others notice nothing; who leaves unsent is not charged", test: "TestLeavingACrowd TestOneOfACrowdFails"},
	{fault: "reply lost in one slot of several", invariant: "nothing stays charged", test: "TestLostReservation TestLostBucketReservation"},
	{fault: "a give-back's server is away for long", invariant: "tried for 10 s, also after the call, and not afterwards", test: "TestGiveBackIsAbandoned"},
	{fault: "callers share a pipeline of a Cluster: replies lost, NOSCRIPT, TRYAGAIN or LOADING inside, a slot that has moved or moves", invariant: "executed at most once; the others are decided", test: "TestPipeline TestPipelineOfMovedSlots TestBudgetByTheClock"},
	{fault: "server never answers, budget 100 ms", invariant: "calls end with their budget", produce: silentServer},
	{fault: "context cancelled or past its deadline mid-read", invariant: "returns at once; no goroutine stays", test: "TestFrozenServer"},
	{fault: "server frozen, and the callers' deadlines are sooner than the budget", invariant: "their contexts' errors, until five calls in a row have had no answer within the budget; then as onfail says, at once", test: "TestDeadlinesOfAFrozenServer"},
	{fault: "callers' deadlines shorter than the way to a server that answers", invariant: "their contexts' errors; the breaker stays shut, and callers with time are decided", test: "TestBudgetByTheClock"},
	{fault: "context done before the call", invariant: "nothing is sent", produce: doneContext},
	{fault: "pool exhausted", invariant: "ends with the budget; unavailable", test: "TestExhaustedPool"},
	{fault: "20 ms more on every packet", invariant: "admitted = limit, no call fails", produce: slowPackets},
	{fault: "200 ms more on every packet, budget 100 ms", invariant: "admitted and lost cover what is charged; decides again", produce: farServer},
	{fault: "one byte a packet", invariant: "admitted = limit, no call fails", produce: trickle},
	{fault: "DNS gone", invariant: "unavailable within the budget, nothing sent; decides again", produce: noDNS},
	{fault: "idle connections have gone silent, new ones are answered: a firewall has forgotten them", invariant: "after the rest that five failures bring, decided on a new connection; the client is rid of the others", test: "TestForgottenConnections"},
	{fault: "server restarted, idle pool stale", invariant: "at most one call fails", produce: restarted},
	{fault: "CLIENT KILL and SCRIPT FLUSH during load", invariant: "admitted ≤ charged ≤ admitted + lost", test: "TestKilledConnections"},
	{fault: "CLIENT KILL and SCRIPT FLUSH while callers share pipelines of a Cluster", invariant: "admitted ≤ charged ≤ admitted + lost", test: "TestPipelinesWhoseConnectionsAreKilled"},
	{fault: "maxclients reached", invariant: "unavailable, not charged; decides again", produce: maxClients},
	{fault: "server frozen, then resumed", invariant: "charged ≤ admitted + lost: over-count only", produce: frozenAndResumed},
	{fault: "breaker half-open under 1,000 goroutines", invariant: "one probe at a time", test: "TestBreaker TestBreakerKeepsFromRefusalsAndCallers"},
	{fault: "one master of a Cluster frozen", invariant: "the others decide all of their calls; those of the frozen one fail without asking it", test: "TestBreakerOfEachServer"},
	{fault: "one master of a Cluster killed while callers share pipelines", invariant: "the others decide all of their calls; those of the killed one end with the budget", test: "TestPipelinesToAKilledMaster"},
	{fault: "server gone under three instances, onfail=local", invariant: "each instance allows its share; together no more than the limit of a new id", test: "TestOutage"},
	{fault: "server killed and restarted again and again under load, onfail=local", invariant: "in any window at most L + n·max(1, ⌊L/n⌋) calls pass", test: "TestBoundOfKills"},
	{fault: "instances counted by heartbeats: keys lost, clock set back, key of another program, server frozen", invariant: "counted again as they attend; says so in time", test: "TestAttend TestAttendanceEnds TestAttendFails"},
	{fault: "server dead", invariant: "ends with the budget; unavailable", test: "TestDeadServer"},
	{fault: "a client's hook panics", invariant: "misconfigured, the program lives", test: "TestPanickingClient"},
	{fault: "a client's hook drops a script, or what it answers", invariant: "an error, never a decision", test: "TestHostileHooks"},
	{fault: "a client's hook sends a script again", invariant: "charged for each sending; never more admitted than the limit", test: "TestHookThatSendsAgain"},
	{fault: "a client's hook sends a pipeline again, keeps it, or panics", invariant: "executed at most once; an error, never a decision; misconfigured, the program lives, but where the hook is a node's own, whose panic in a pipeline nothing can recover", test: "TestBudgetByTheClock"},
	{fault: "a client's hook reads the words of scripts, as one that traces does", invariant: "admitted and charged as without; indeterminate, where a call ends while it waits for a connection", test: "TestHookThatReads TestHookThatReadsWhatIsNotSent"},
	{fault: "a client's hook holds a script back", invariant: "calls end with the budget; unsent then, never sent; others are decided", test: "TestLateHook"},
	{fault: "a client made for other programs: timeouts of an hour, MaxRetries 10, PoolSize 1", invariant: "executed at most once; ends with the budget; decides again", test: "TestHostileOptions TestHostileClusterOptions"},
	{fault: "something else answers", invariant: "misconfigured, never allowed", test: "TestDecodeForeignReplies TestSomethingElseListens"},

	// States of servers
	{fault: "SCRIPT FLUSH during load", invariant: "no call fails; charged = admitted", produce: scriptFlushes},
	{fault: "EVALSHA inside MULTI after a flush", not: "no MULTI is ever sent: TestOneCommand"},
	{fault: "FLUSHALL in a window", invariant: "admitted ≤ 2 × limit", produce: flushAll},
	{fault: "OOM, NOREPLICAS, READONLY, MASTERDOWN", invariant: "unavailable, not charged; decides again", test: "TestServerStates"},
	{fault: "eviction of the limit's key", invariant: "admitted ≤ limit × (1 + evictions)", produce: eviction},
	{fault: "MISCONF", invariant: "unavailable, not charged; decides again", produce: misconf},
	{fault: "LOADING", invariant: "unavailable, not charged; decides again", produce: loading},
	{fault: "BUSY with another's script", invariant: "unavailable, not charged; decides again", produce: busy},
	{fault: "CLIENT PAUSE", invariant: "ends with the budget; charged ≤ admitted + lost", produce: paused},
	{fault: "WRONGTYPE", invariant: "misconfigured; the key is untouched", test: "TestWrongType TestForeignStrings TestForeignCompactLog TestForeignCounts"},
	{fault: "key without a time to live", invariant: "the charges of the next second set it, under every algorithm", produce: persisted},
	{fault: "ACL user with the documented permissions, and without each", invariant: "works; misconfigured without", test: "TestPermissions TestClusterPermissions TestBucketPermissions TestCompactLogPermissions TestNothingElseIsSent"},
	{fault: "a database that there is not, or one of a Cluster; a name that no client may have", invariant: "misconfigured", test: "TestRefusedWhileConnecting"},
	{fault: "no password, a wrong one, a changed one", invariant: "misconfigured", test: "TestAuthentication TestPasswordChanged"},
	{fault: "locked out while it runs: password, user, commands, keys", invariant: "misconfigured from the first refusal on, under every onfail; the log says so", test: "TestLockedOut"},
	{fault: "a connection delivers the replies of other calls", invariant: "nothing is allowed by them; indeterminate, and the connection is closed", test: "TestReplyOfAnotherCall"},
	{fault: "one master of a Cluster refuses the client, another's connections break", invariant: "misconfigured by the one; the other's breaker opens, and its errors are its own", test: "TestRefusalOfOneServer"},
	{fault: "requirepass set while connected", invariant: "misconfigured, never open", produce: requirepass},
	{fault: "TLS: RESP2 and RESP3; an authority that nobody trusts, another name", invariant: "decides as without; misconfigured", test: "TestSecure"},
	{fault: "TLS: a server that wants certificates of its clients, which is redis-server's default, and a client without", invariant: "misconfigured, by the check and by every call, never open", test: "TestClientCertificates"},
	{fault: "Sentinels that know no master of the client's name; Sentinels that are down", invariant: "misconfigured, by the check and by every call; unavailable", test: "TestMisnamedMaster"},
	{fault: "RESP2 and RESP3", invariant: "the same laws", test: "TestStandalone/RESP2 TestStandalone/held"},

	// Cluster, Sentinel, replication
	{fault: "ASK, TRYAGAIN, MOVED, a master killed", invariant: "followed once; executed at most once; recovers", test: "TestClusterChanges"},
	{fault: "a slot moves under load", invariant: "no error reaches a caller; charged = admitted", produce: resharding, long: "it moves slots several times, which TestClusterChanges does once"},
	{fault: "a slot moves, and its masters do not agree on where it is", invariant: "unavailable, not charged, whatever the client's MaxRedirects; decides again", produce: disputed, long: "it starts two clusters"},
	{fault: "a client that follows no redirection, and a slot that has moved", invariant: "found; never misconfigured", test: "TestMovedWithoutRedirections"},
	{fault: "CROSSSLOT", invariant: "keys of one script share a slot", test: "TestSlot TestSharedSlot"},
	{fault: "undeclared keys", invariant: "no script touches one", test: "TestClusterDeclaredKeys/PeekChargesNothing"},
	{fault: "denied in one slot, under load", invariant: "nothing stays charged in the others", test: "TestDeniedAcrossSlots TestManyDeniedAcrossSlots"},
	{fault: "replies of give-backs lost on one node", invariant: "sliding logs: nothing denied stays charged; compact logs: what was cut off at most", produce: lostGiveBacks},
	{fault: "promotion by Sentinel under load", invariant: "admitted ≤ limit + lost writes; recovers without a restart", produce: promotion, long: "it waits for a promotion, as TestSentinelFailover does"},
	{fault: "promotion in a Cluster under load", invariant: "admitted ≤ limit + lost writes; recovers without a restart", produce: clusterPromotion, long: "it waits for a promotion, as TestClusterChanges does"},
	{fault: "promotion by Sentinel under instances that are counted", invariant: "counted as before; no fewer where the count is lost", test: "TestAttendancePromotion"},
	{fault: "the master of a program's Redis killed under load, onfail=local, two instances", not: "in examples/shop, whose TestMasterKilled does"},
	{fault: "promotion with lost writes", invariant: "admitted = limit + lost writes", produce: lostWrites},
	{fault: "split brain", invariant: "admitted ≤ 2 × limit", produce: splitBrain},
	{fault: "CLUSTERDOWN", invariant: "unavailable, not charged; decides again", produce: clusterDown},
	{fault: "the next master's clock is 5 s off", invariant: "ahead: admitted ≤ 2 × limit; behind: decides again once it has caught up", produce: skewedReplica},

	// Time
	{fault: "clock set back", invariant: "nothing negative; the rate holds in stored time, and, but for what calls under way give back, in the time that passes", test: "TestMiniredis/ClockSetBack TestMiniredis/ClockSetBackRate TestExpiryIsNeverBroughtForward"},
	{fault: "1,000 calls in one microsecond", invariant: "all are counted", test: "TestMiniredis/SameMicrosecond"},
	{fault: "the ends of windows, to the microsecond", invariant: "half-open", test: "TestMiniredis/Traces TestMiniredis/RateIsKept"},
	{fault: "clocks of the program's instances differ", invariant: "decide nothing: TIME is the only clock", test: "TestScriptReadsTimeOnce"},
	{fault: "server forbids TIME in scripts", invariant: "misconfigured: there is no mode that trusts clients' clocks", test: "TestPermissions/time"},
	{fault: "TIME moves within a script", invariant: "read once", test: "TestScriptReadsTimeOnce"},
}

// TestFaults produces the faults of the matrix for real. No decision outlasts its budget. The long suite prints the matrix
// with what happened, and how long decisions took. It fails where a fault is not produced, if programs are required.
func TestFaults(t *testing.T) {
	if !suite.Long() && !*whole {
		quickFaults(t)
		return
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\twhat happened\tinvariant\tp99, slowest\tresult")
	for _, r := range faultMatrix {
		got := produced{happened: r.not, result: "not produced"}
		if r.not == "" {
			got.result = ""
			ok := t.Run(r.fault, func(t *testing.T) { r.run(t, &got) })
			switch {
			case got.result == "" && ok:
				continue // not among those that -run names
			case !ok:
				got.result = "FAIL"
			case got.result == "skipped" && mustProduce():
				t.Errorf("%s: the fault was not produced, want it", r.fault)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.fault, got.happened, r.invariant, got.prompt, got.result)
	}
	w.Flush()
	t.Log("\n" + table.String())
}

// quickFaults produces the faults that take little time, in parallel. One watch is for the calls of all of them.
func quickFaults(t *testing.T) {
	calls := watch(t)
	t.Cleanup(func() { calls.hold(t) })
	for _, r := range faultMatrix {
		t.Run(r.fault, func(t *testing.T) {
			switch {
			case r.long != "":
				suite.NeedLong(t, r.long)
			case r.produce != nil:
				t.Parallel()
				r.produce(t)
			default:
				r.run(t, &produced{})
			}
		})
	}
}

// produced is what came of a row.
type produced struct {
	happened string
	prompt   string // how long the decisions took; empty where none was measured
	result   string
}

func (r *row) run(t *testing.T, got *produced) {
	got.result = "skipped" // unless it comes to another
	if r.produce != nil {
		calls := watch(t)
		got.happened = r.produce(t)
		got.prompt, got.result = calls.hold(t), "pass"
		return
	}
	for _, test := range strings.Fields(r.test) {
		if name, _, _ := strings.Cut(test, "/"); !declared(t, name) {
			t.Errorf("the package has no %s, want the test of this fault", name)
		}
	}
	got.happened = "see " + strings.ReplaceAll(r.test, " ", ", ")
	if !*whole {
		got.result = "elsewhere"
		return
	}
	skipped := 0
	for _, test := range strings.Fields(r.test) {
		if runAlone(t, test) {
			skipped++
		}
	}
	if skipped == 0 {
		got.result = "pass"
	}
}

// declared says whether a test file of this package declares the test.
func declared(t *testing.T, name string) bool {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name) + `\(t \*testing\.T\)`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if function.Match(text) {
			return true
		}
	}
	return false
}

// runAlone runs another test of this package in its own process, and reports whether a part of it was skipped. That
// fails the test if no fault may be left out.
func runAlone(t *testing.T, test string) (skipped bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pattern := "^" + strings.ReplaceAll(test, "/", "$/^") + "$"
	args := []string{"-test.v", "-test.run", pattern, "-rapid.nofailfile", "-test.timeout", "5m"}
	out, err := exec.Command(self, args...).CombinedOutput()
	if err != nil || strings.Contains(string(out), "no tests to run") {
		t.Errorf("%s: %v\n%s", test, err, out)
	}
	if skipped = strings.Contains(string(out), "--- SKIP: "); skipped && mustProduce() {
		t.Errorf("%s was skipped, at least in part, want it run:\n%s", test, out)
	}
	return skipped
}

// mustProduce reports whether no fault may be left out.
func mustProduce() bool { return suite.Long() && suite.Required() }
