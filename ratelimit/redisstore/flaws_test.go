package redisstore_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlgen/rlgen/ratelimit/redisstore"
	"github.com/rlgen/rlgen/ratelimit/storetest/redistest"
	"github.com/rlgen/rlgen/testdata/suite"
)

// flaw is a mistake that scripts of this kind are known for, and the test that must fail on a script that makes it.
type flaw struct {
	name    string
	file    string
	changes []string // what stands in the file, and what the flaw has in its place, in turns
	test    string
}

var flaws = []flaw{
	{"microseconds by tostring in a log", "integer.lua", []string{
		`if n < 1000000000 then`, `do
    return tostring(n)
  end
  if n < 1000000000 then`,
	}, "TestStandalone/held/Model"},
	{"microseconds by tostring in a string", "entries.lua", []string{
		`integer(rule.ends)`, `rule.ends`,
	}, "TestStandalone/held/RateIsKept"},
	{"microseconds of TIME without their zeros", "clock.lua", []string{
		`time[1] * 1000000 + time[2]`, `tonumber(time[1] .. time[2])`,
	}, "TestMiniredis/Traces"},
	{"a time to live with a fraction, after the write", "sliding_log.lua", []string{
		`integer(ms + SLACK)`, `ms + 0.4`,
	}, "TestEveryKeyExpires"},
	{"a write, and then a time to live with a fraction", "entries.lua", []string{
		`redis.call('SET', limit.key, value, 'PX', integer(math.ceil((last - now) / 1000) + SLACK_AFTER_END))`,
		`redis.call('SET', limit.key, value) redis.call('PEXPIRE', limit.key, (last - now) / 1000 + 0.4)`,
	}, "TestKeysOfAllAlgorithms"},
	{"no time to live of a log", "sliding_log.lua", []string{
		`redis.call('PEXPIRE', limit.key, integer(ms + SLACK))`, `local _ = ms + SLACK`,
	}, "TestKeysOfAllAlgorithms"},
	{"no time to live of a string", "entries.lua", []string{
		`, 'PX', integer(math.ceil((last - now) / 1000) + SLACK_AFTER_END)`, ``,
	}, "TestKeysOfAllAlgorithms"},
	{"a time to live in whole seconds below the window", "sliding_log.lua", []string{
		`integer(ms + SLACK)`, `integer(math.max(1, math.floor(limit.window / 1000000 - 1)) * 1000)`,
	}, "TestMiniredis/RateIsKept"},
	{"a time to live in whole seconds of a string", "entries.lua", []string{
		`integer(math.ceil((last - now) / 1000) + SLACK_AFTER_END)`, `integer(math.max(1, math.floor((last - now) / 1000000)) * 1000)`,
	}, "TestMiniredis/RateIsKept"},
	{"a time to live that a shorter window brings forward", "sliding_log.lua", []string{
		`if redis.call('PTTL', limit.key) <= ms then`, `do`,
	}, "TestExpiryIsNeverBroughtForward"},
	{"trimming by rank with a time", "sliding_log.lua", []string{
		`'ZREMRANGEBYSCORE', limit.key, '-inf', integer(now - limit.window)`, `'ZREMRANGEBYRANK', limit.key, 0, integer(now - limit.window)`,
	}, "TestMiniredis/RateIsKept"},
	{"trimming what is still seen", "sliding_log.lua", []string{
		`integer(now - limit.window))`, `integer(now - limit.window + 1))`,
	}, "TestMiniredis/(Model|RateIsKept|RetryAfterIsTight)"},
	{"members that are times", "sliding_log.lua", []string{
		`scored[#scored + 1] = integer(unit) .. base`, `scored[#scored + 1] = score`,
		`'NX', unpack(scored)`, `unpack(scored)`,
		`'NX', score, base`, `score, score`,
		`if added < cost then`, `if added < 0 then`,
	}, "TestMiniredis/SameMicrosecond"},
	{"more arguments than Lua unpacks", "sliding_log.lua", []string{
		`CHUNK = 1000`, `CHUNK = 100000`,
	}, "TestGiveBackRestoresTheKey"},
	{"tokens rounded down, and the time of the last call forgotten", "bucket.lua", []string{
		`return moved(rule, cost * rule.window, rule.start, (rule.note or 0) + cost, time)`, `local missing = math.ceil(((rule.ends or now) - now) * rule.count / rule.window) + cost
  return now + math.ceil(missing * rule.window / rule.count), ''`,
	}, "TestMiniredis/RateDoesNotDrift"},
	{"trimming before the check, which a server that is full lets pass with all that follows", "sliding_log.lua", []string{
		`local units = redis.call('ZCARD', limit.key)`, `redis.call('ZREMRANGEBYSCORE', limit.key, '-inf', integer(now - limit.window))
  local units = redis.call('ZCARD', limit.key)`,
	}, "TestServerStates/OOM"},
	{"a retry-after that is the key's time to live", "sliding_log.lua", []string{
		`rule.retry, allowed = leaves - now, false`, `rule.retry, allowed = redis.call('PTTL', limit.key) * 1000, false`,
	}, "TestMiniredis/RetryAfterIsTight"},
	{"a retry-after for one permit, whatever the cost", "sliding_log.lua", []string{
		`rule.retry, allowed = leaves - now, false`, `rule.retry, allowed = math.max(1, newest(limit.key, math.min(units, rule.count)) + rule.window - now), false`,
	}, "TestMiniredis/Traces"},
	{"units that a clock which was set back does not see", "sliding_log.lua", []string{
		`if leaves > now then`, `if leaves > now and leaves <= now + rule.window then`,
	}, "TestMiniredis/ClockSetBack"},
	{"a give-back of what is newest, whosever it is", "sliding_log.lua", []string{
		`redis.call('ZREM', limit.key, unpack(members))`, `redis.call('ZREMRANGEBYRANK', limit.key, -#members, -1)`,
	}, "TestMiniredis/GiveBackIsIdempotent"},
	{"a permit's time in whole microseconds, rounded down", "bucket.lua", []string{
		`return moved(rule, cost * rule.window, rule.start`, `return moved(rule, cost * math.floor(rule.window / rule.count) * rule.count, rule.start`,
	}, "TestMiniredis/(RateIsKept|Numbers)"},
	{"permits taken ahead that are charged as of now", "sliding_log.lua", []string{
		`score = integer(now + limit.ahead)`, `score = integer(now)`,
	}, "TestMiniredis/AheadIsKept"},
	{"permits taken ahead of a bucket that are charged as of now", "bucket.lua", []string{
		`rule.ends, rule.body = now + ahead, ''`, `rule.ends, rule.body = now, ''`,
	}, "TestMiniredis/AheadIsKept"},
	{"gains that are counted anew from every call", "interval_bucket.lua", []string{
		`return (rule.ends or now) + more * rule.window`, `return now + (math.ceil(((rule.ends or now) - now) / rule.window) + more) * rule.window`,
	}, "TestMiniredis/(Traces|Intervals)"},
	{"a window that every call puts off", "fixed_window.lua", []string{
		`local ends = rule.ends
  if not ends then`, `local ends = rule.ends
  if not ends or option == 1 then`,
	}, "TestMiniredis/(Traces|RateIsReached)"},
	{"the oldest part of a window weighed by how much of it is left", "sliding_window.lua", []string{
		`local length, ends = length_of(rule, segments), rule.ends
  for number in string.gmatch(rule.body .. ',', '(%d*),') do
    room = room - (tonumber(number) or 0)
    if ends <= now then`, `local length, ends = length_of(rule, segments), rule.ends
  for number in string.gmatch(rule.body .. ',', '(%d*),') do
    room = room - math.floor((tonumber(number) or 0) * math.min(1, (ends - now) / length))
    if ends <= now then`,
	}, "TestMiniredis/NeverMore"},
	{"what belongs together in two keys", "entries.lua", []string{
		`limit.written = true`, `redis.call('SET', limit.key .. ':last', integer(now), 'PX', integer(limit.window / 1000))
  limit.written = true`,
	}, "TestKeysOfAllAlgorithms"},
	{"a denied call that is charged", "decision.lua", []string{
		`    refuse()
    return DENIED`, `    refuse()
    for i = 1, size do
      local limit = limits[i]
      local algorithm = limit.algorithm
      if limit.cost > 0 and not algorithm.refuse and (not algorithm.charge or algorithm.charge(limit, decision.base)) then
        algorithm.settle(limit)
      end
    end
    return DENIED`,
	}, "TestMiniredis/UnchargedIsInvisible"},
	{"a limit that is charged before the next denies", "decision.lua", []string{
		`if not limit.algorithm.probe(limit) then
      allowed = false`, `if limit.algorithm.probe(limit) then
      if limit.cost > 0 and limit.algorithm.charge(limit, decision.base) then limit.algorithm.settle(limit) end
    else
      allowed = false`,
		`decision.charged = i
  end`, `decision.charged = i
  end
  do
    return DONE
  end`,
	}, "TestMiniredis/AllOrNothing"},
	{"a write that stays when the next one is impossible", "decision.lua", []string{
		`others(limit).revert(limit, decision.base)`, `local _ = limit`,
	}, "TestTakenBase"},
	{"a write that stays when a command for another limit fails", "decision.lua", []string{
		`local function fail(why)
  pcall(revert)`, `local function fail(why)`,
	}, "TestBucketPermissions"},
	{"a reset that leaves the counts", "decision.lua", []string{
		`redis.call('PEXPIRE', decision.limits[i].key, 0)`, `local _ = i`,
	}, "TestMiniredis/ResetOfSeveral"},
	{"a ban that ends early", "door.lua", []string{
		`limit.closed, limit.denials = now + time, {}`, `limit.closed, limit.denials = now + math.floor(time / 4), {}`,
	}, "TestMiniredis/Ban"},
	{"keys that are built in the script", "decision.lua", []string{
		`limits[j].key = KEYS[keys + j]`, `limits[j].key = KEYS[keys + j] .. ':log'`,
	}, "TestClusterDeclaredKeys/PeekChargesNothing"},
	{"a retry-after in seconds, whose fraction Redis drops", "decision.lua", []string{
		`reply[#reply + 1] = rule.retry`, `reply[#reply + 1] = rule.retry / 1000000`,
	}, "TestMiniredis/RetryAfterIsTight"},
	{"a hole in the reply", "decision.lua", []string{
		`reply[#reply + 1] = rule.reset`, `reply[#reply + 1] = rule.reset > 0 and rule.reset or nil`,
	}, "TestMiniredis/PeekChargesNothing"},
	{"the retry-after of the decision before", "decision.lua", []string{
		`rule.retry = 0`, `local _ = rule`,
	}, "TestManyDecisions"},
	{"one name for all decisions of a batch", "decision.lua", []string{
		`decision.base = ARGV[bases + i]`, `decision.base = ARGV[bases]`,
	}, "TestManyDecisions"},
	{"a decision that fails, and with it all behind it", "frame.lua", []string{
		`local ok, why = pcall(work, first)`, `local ok, why = true, work(first)`,
	}, "TestManyDecisions"},
	{"a failure of one that is told to all", "frame.lua", []string{
		`if decision.number > first then`, `if false then`,
	}, "TestCrowdOfARefusingServer"},
	{"a limit that is asked only where the one before it allows", "decision.lua", []string{
		`if not limit.algorithm.probe(limit) then
      allowed = false`, `if not limit.algorithm.probe(limit) then
      return false`,
	}, "TestMiniredis/Traces"},
	{"a cost of nothing that is charged", "decision.lua", []string{
		`    if limit.cost > 0 then
      limit.algorithm.settle(limit)
    end`, `    limit.algorithm.settle(limit)`,
	}, "TestMiniredis/UnchargedIsInvisible"},
	{"the last rule that decides alone", "entries.lua", []string{
		`    if rule.retry ~= 0 then
      allowed = false
    end`, `    allowed = rule.retry == 0`,
	}, "TestMiniredis/(Traces|Buckets)"},
	{"what another version of a service counts that is thrown away", "entries.lua", []string{
		`limit.others, limit.last = others, last`, `limit.others, limit.last = '', 0`,
	}, "TestDeployments"},
	{"a give-back of what has come back by itself", "bucket.lua", []string{
		`local units = all - math.max(0, from - at - ahead) * rule.count`, `local units = all`,
	}, "TestMiniredis/(Traces|GiveBackKeepsTheRate)"},
	{"a give-back that each of several calls loses what has come back for all", "bucket.lua", []string{
		`units = math.max(units, math.min(all, missing))`, ``,
	}, "TestMiniredis/OnlySuccesses"},
	{"a give-back of more than the call was charged", "bucket.lua", []string{
		`math.min(all, missing)`, `missing`,
	}, "TestMiniredis/GiveBackKeepsTheRate"},
	{"a give-back of what is missing for calls behind", "bucket.lua", []string{
		`missing = missing - (charged - before - cost) * rule.window`, ``,
	}, "TestMiniredis/GiveBackKeepsTheRate"},
	{"a give-back that does not look at what is missing", "bucket.lua", []string{
		`math.min(MOST, math.max(0, rule.ends - from) * rule.count) - early(rule)`, `MOST`,
	}, "TestMiniredis/GiveBackKeepsTheRate"},
	{"calls behind that are forgotten once one before them is given back", "bucket.lua", []string{
		`if missing >= all and before + cost == charged then
      charged = before`, `if true then
      charged = charged - cost`,
	}, "TestMiniredis/(Traces|Buckets)"},
	{"a give-back to a bucket that has been full since", "bucket.lua", []string{
		`if returns and start and start <= at and before + cost <= charged then`, `if returns and start and before + cost <= charged then`,
	}, "TestMiniredis/(Buckets|GiveBackKeepsTheRate)"},
	{"calls behind that are not counted, of a limit whose own are not given back", "bucket.lua", []string{
		`if body and body ~= '' and string.find(body, '@', 1, true) then`, `if false then`,
	}, "TestMiniredis/Traces"},
	{"a give-back of what was not counted, as if it had been charged first", "bucket.lua", []string{
		`if returns and start and start <= at`, `if start and start <= at`,
	}, "TestMiniredis/Traces"},
	{"a bucket that counts what nobody gives back", "bucket.lua", []string{
		`  return returns
end`, `  return true
end`,
	}, "TestBucketText"},
	{"calls behind that were charged by another count", "bucket.lua", []string{
		`if count and count + 0 == rule.count then
    return rule.ends - age`, `if count then
    return rule.ends - age`,
	}, "TestMiniredis/GiveBackAcrossCounts"},
	{"a give-back to the window that follows", "fixed_window.lua", []string{
		`if at < rule.ends - rule.window or at >= rule.ends then`, `if false then`,
	}, "TestMiniredis/(Traces|RateIsKept)"},
	{"a give-back that moves up those who have been told when to go on", "queue.lua", []string{
		`if rule.ends + more ~= at + delayed then`, `if false then`,
	}, "TestMiniredis/(Traces|QueueSpacing)"},
	{"an expiry that decides: a window that ends when its key does", "entries.lua", []string{
		`if ends <= now then`, `if false then`,
	}, "TestMiniredisWithoutExpiry/(Traces|RetryAfterIsTight)"},
}

func flawNamed(t *testing.T, name string) flaw {
	t.Helper()
	i := slices.IndexFunc(flaws, func(f flaw) bool { return f.name == name })
	if i < 0 {
		t.Fatalf("there is no flaw %q", name)
	}
	return flaws[i]
}

// broken returns the script with the flaw.
func (f flaw) broken(t *testing.T) string {
	t.Helper()
	bytes, err := os.ReadFile(f.file)
	if err != nil {
		t.Fatal(err)
	}
	file, script := string(bytes), redisstore.ScriptText()
	if strings.Count(script, file) != 1 {
		t.Fatalf("%s does not stand once in the script", f.file)
	}
	text := file
	for i := 0; i < len(f.changes); i += 2 {
		if n := strings.Count(text, f.changes[i]); n != 1 {
			t.Fatalf("%s has %q %d times, want once: write the flaw anew", f.file, f.changes[i], n)
		}
		text = strings.Replace(text, f.changes[i], f.changes[i+1], 1)
	}
	return strings.Replace(script, file, text, 1)
}

// TestFlawsApply tests that the script has the place of each flaw.
func TestFlawsApply(t *testing.T) {
	for _, f := range flaws {
		f.broken(t)
	}
}

// TestFlawsAreNoticed runs tests of this package on scripts that have a flaw each: they fail.
func TestFlawsAreNoticed(t *testing.T) {
	suite.NeedLong(t, "it runs a test for each flaw")
	if os.Getenv("RATELIMIT_TEST_SCRIPT") != "" {
		t.Skip("the script is broken already")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	client := redistest.Standalone(t).Client(t)
	for _, f := range flaws {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			script := f.broken(t)
			if err := client.ScriptLoad(t.Context(), script).Err(); err != nil {
				t.Fatalf("%v: of a script that is none, nothing is noticed: write the flaw anew", err)
			}
			path := filepath.Join(t.TempDir(), "script.lua")
			if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
				t.Fatal(err)
			}
			parts := strings.Split(f.test, "/")
			cmd := exec.Command(self, "-test.v", "-test.run", "^"+strings.Join(parts, "$/^")+"$", "-test.failfast", "-rapid.nofailfile", "-test.timeout", "5m")
			cmd.Env = append(os.Environ(), "RATELIMIT_TEST_SCRIPT="+path, "RLGEN_TEST_REQUIRE=0")
			out, err := cmd.CombinedOutput()
			if err == nil && strings.Contains(string(out), "--- SKIP: "+parts[0]) && !suite.Required() {
				t.Skipf("%s skips:\n%s", f.test, out)
			}
			if err == nil || strings.Contains(string(out), "no tests to run") {
				t.Errorf("%s passes on a script with this flaw, want it to fail:\n%s", f.test, out)
			} else if err != nil && !strings.Contains(string(out), "--- FAIL: "+parts[0]) {
				t.Errorf("%s does not end: %v\n%s", f.test, err, out)
			}
		})
	}
}
