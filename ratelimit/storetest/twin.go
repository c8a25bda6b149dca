package storetest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/rlgen/rlgen/ratelimit/store"
	"github.com/rlgen/rlgen/rules"
)

// lawUncharged: calls that are denied, that cost nothing, or that are given back at once, change no later answer. Some of
// them are denied by another limit.
func lawUncharged(sc *scene) {
	full := store.Request{Key: sc.key + "full", Rules: []rules.Rule{{Count: 1, Window: 24 * time.Hour}}, Cost: 1}
	sc.take(full)
	other := sc.twin("uncharged")
	for range rapid.IntRange(1, 12).Draw(sc.T, "calls") {
		switch rapid.IntRange(0, 4).Draw(sc.T, "uncharged") {
		case 0:
			other.call(0)
		case 1:
			if out := other.call(sc.smallest() + 1); out.Allowed {
				sc.Fatalf("%v: cost %d is allowed", sc.limit, sc.smallest()+1)
			}
		case 2:
			if out := other.take(other.request(max(1, sc.drawCost())), full); out.Allowed {
				sc.Fatalf("%v: allowed, though a limit is used up", sc.limit)
			}
		case 3:
			if out := other.call(sc.drawCost()); out.Allowed {
				other.giveBack(out)
				other.giveBack(out)
			}
		}
		cost := sc.drawCost()
		want := sc.call(cost)
		sc.agree("with calls that charge nothing", other.call(cost), want)
		sc.wait()
	}
}

// lawGiveBack: what is given back later never leaves more than if the call had not been made, nor less than if it had not
// been given back; a receipt is of use once.
func lawGiveBack(sc *scene) {
	kept, without := sc.twin("kept"), sc.twin("without")
	cost := min(max(1, sc.drawCost()), sc.smallest())
	if cost == 0 {
		return
	}
	out, same := sc.call(cost), kept.call(cost)
	sc.agree("the same call of a twin", same, out)
	if !out.Allowed {
		return
	}
	sc.wait()
	before := kept.call(0)
	for range rapid.IntRange(1, 2).Draw(sc.T, "times") {
		sc.giveBack(out)
	}
	after, unmade := sc.call(0), without.call(0)
	for i := range after.Rules {
		if got := after.Rules[i].Remaining; got < before.Rules[i].Remaining || got > unmade.Rules[i].Remaining {
			sc.Fatalf("%v: rule %d: %d remaining after the give-back, want %d to %d", sc.limit, i, got, before.Rules[i].Remaining, unmade.Rules[i].Remaining)
		}
	}
	sc.agree("given back, as if never made", after, unmade) // the bucket was full
	next := sc.drawCost()
	sc.agree("the call after it", sc.call(next), without.call(next))
	sc.giveBack(out)
	sc.agree("given back again", sc.call(0), without.call(0))
}

// lawReturned: among other calls, a give-back leaves all but at most what time has given back already.
func lawReturned(sc *scene) {
	without := sc.twin("without")
	for range rapid.IntRange(0, 4).Draw(sc.T, "past") {
		cost := sc.drawCost()
		sc.agree("twins", without.call(cost), sc.call(cost))
		sc.wait()
	}
	out := sc.call(rapid.Int64Range(1, 3).Draw(sc.T, "cost"))
	if !out.Allowed {
		return
	}
	sc.wait()
	sc.giveBack(out)
	got, want := sc.call(0), without.call(0)
	if !sc.variant.forgets {
		sc.agree("given back, as if never made", got, want)
	}
	for i := range want.Rules {
		if got.Rules[i].Remaining > want.Rules[i].Remaining || got.Rules[i].ResetAfter < want.Rules[i].ResetAfter {
			sc.Fatalf("%v: rule %d: %+v after the give-back, want no more than without the call, %+v", sc.limit, i, got.Rules[i], want.Rules[i])
		}
	}
}

// lawAdditive: a cost of n passes if n calls of cost 1 do, at the same instant, and leaves the same.
func lawAdditive(sc *scene) {
	parts := sc.twin("parts")
	for range rapid.IntRange(1, 8).Draw(sc.T, "calls") {
		cost := max(1, sc.drawCost())
		whole := sc.call(cost)
		var receipts []store.Outcome
		for range cost {
			if out := parts.call(1); out.Allowed {
				receipts = append(receipts, out)
			}
		}
		if all := int64(len(receipts)) == cost; all != whole.Allowed {
			sc.Fatalf("%v: cost %d allowed = %v, in calls of cost 1 %v", sc.limit, cost, whole.Allowed, all)
		}
		if !whole.Allowed {
			for _, out := range receipts {
				parts.giveBack(out)
			}
		}
		sc.agree("whole and in parts", parts.call(0), sc.call(0))
		sc.wait()
	}
}

// lawSame: a variant that is another by name, or by how it stores, answers as that does.
func lawSame(sc *scene) {
	if sc.variant.sameAs == "" {
		return
	}
	l, err := variantOf(sc.variant.sameAs).limit(sc.limit.Rules...)
	if err != nil {
		sc.Fatal(err)
	}
	other := sc.twin("same")
	l.Burst = sc.limit.Burst
	other.limit = l
	var outs, others []store.Outcome
	for range rapid.IntRange(1, 20).Draw(sc.T, "calls") {
		if n := len(outs); n > 0 && rapid.IntRange(0, 4).Draw(sc.T, "back") == 0 {
			i := rapid.IntRange(0, n-1).Draw(sc.T, "receipt")
			sc.giveBack(outs[i])
			other.giveBack(others[i])
		}
		cost := sc.drawCost()
		out, same := sc.call(cost), other.call(cost)
		sc.agree("as "+sc.variant.sameAs, same, out)
		if out.Allowed {
			outs, others = append(outs, out), append(others, same)
		}
		sc.wait()
	}
}
