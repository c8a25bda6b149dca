package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlgen/rlgen/ratelimit/store"
)

const (
	// fleetBudget is how long a snapshot waits for Redis.
	fleetBudget = 250 * time.Millisecond
	// callBudget is how long a call may go on beside it.
	callBudget = 3 * time.Second
	// fresh is how long what was read holds for what the fleet has.
	fresh = 4 * time.Second
	// toldSpan is how many seconds back others are told of, where they could not be at once.
	toldSpan = 60
	// toldRanks is how many ids others are told of at once.
	toldRanks = 32
	// shown is how many ids, bans and changes a page lists.
	shown = 50
)

// fleet is the instances of a service, as they tell each other in Redis. It is safe for concurrent use.
type fleet struct {
	client   redis.UniversalClient
	keys     keys
	observer *Observer
	book     book         // what all have counted, by the server's seconds
	offset   atomic.Int64 // how far the server's clock is ahead of the observer's, ns
	busy     atomic.Bool
	salted   atomic.Bool // the secret of the ids is the one that all have

	attended time.Time // of whoever is busy, and what follows
	present  string    // what was last said of this instance
	readTo   int64     // the second until which the book is read
	looks    int       // how often it was read

	mu    sync.Mutex
	state shared
}

// shared is what was last read, and how that went.
type shared struct {
	read      time.Time // when that last went well
	err       error     // why it does not now
	trip      time.Duration
	instances []presence
	top       []ranked
	bans      []ban
	changes   []change
}

// presence is what an instance says of itself.
type presence struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Rules   string `json:"rules"` // the version of its rules
	Started int64  `json:"started"`

	seen time.Time
}

func newFleet(client redis.UniversalClient, service string, o *Observer) *fleet {
	f := &fleet{client: client, keys: keysOf(service), observer: o}
	f.book.lane(latencyLane)
	return f
}

// now is the time by the server's clock.
func (f *fleet) now() time.Time { return f.observer.clock().Add(time.Duration(f.offset.Load())) }

// ahead is by how many seconds the server's are later.
func (f *fleet) ahead() int64 {
	return int64(time.Duration(f.offset.Load()).Round(time.Second) / time.Second)
}

// sync tells the others what is new, and reads what they have told where somebody looks. It returns once ctx is done; what it began then goes on, and the next
// one does nothing before that has ended.
func (f *fleet) sync(ctx context.Context, me presence, ids *ids, watched bool) {
	if !f.busy.CompareAndSwap(false, true) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer f.busy.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callBudget)
		defer cancel()
		err := f.tell(ctx, me, ids)
		if err == nil && (watched || !f.salted.Load()) {
			err = f.look(ctx, ids)
		}
		f.mu.Lock()
		f.state.err = err
		f.mu.Unlock()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// shared returns what was last read.
func (f *fleet) shared() shared {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// tell writes what is new.
func (f *fleet) tell(ctx context.Context, me presence, ids *ids) error {
	e := newEntries(f.keys)
	told := f.tally(e)
	takeBack := f.rank(e, ids)
	text, _ := json.Marshal(me)
	attends := string(text) != f.present || time.Since(f.attended) >= attendEvery
	if attends {
		f.attend(e, string(text), ids)
	}
	if e.empty() {
		return nil
	}
	e.keep()
	begin := time.Now()
	server, err := e.write(ctx, f.client)
	if failed := (*store.Error)(nil); err != nil && (!errors.As(err, &failed) || failed.Class != store.Indeterminate) {
		takeBack()
		return err // and nobody was told
	}
	for _, t := range told {
		t.lane.tell(t.second, t.kind, t.n)
	}
	if err != nil {
		return err
	}
	if attends {
		f.present, f.attended = string(text), time.Now()
	}
	f.adjust(server, time.Since(begin))
	return nil
}

// adjust takes note of the server's time, which it had while it was asked.
func (f *fleet) adjust(server time.Time, trip time.Duration) {
	offset := server.Sub(f.observer.clock().Add(-trip / 2))
	if (offset - time.Duration(f.offset.Load())).Abs() > 250*time.Millisecond {
		f.offset.Store(int64(offset))
	}
	f.mu.Lock()
	f.state.trip = trip
	f.mu.Unlock()
}

// attend says that this instance is there, in place of what it has said before.
func (f *fleet) attend(e *entries, me string, ids *ids) {
	if f.present != "" && f.present != me {
		e.put(f.keys.instances(), "gone", f.present, 0)
	}
	e.put(f.keys.instances(), "here", me, 0)
	if !ids.given && !ids.clear {
		e.put(f.keys.salt(), "salt", string(*ids.secret.Load()), 0)
	}
}

// leave says that this instance is gone.
func (f *fleet) leave(ctx context.Context, member string) {
	if !f.busy.CompareAndSwap(false, true) {
		return // it is forgotten in a while
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer f.busy.Store(false)
		if f.present == "" {
			return
		}
		e := newEntries(f.keys)
		f.tally(e)
		e.put(f.keys.instances(), "gone", f.present, 0)
		e.keep()
		if _, err := e.write(ctx, f.client); err == nil {
			f.present = ""
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// told is a count that others are about to be told.
type told struct {
	lane   *lane
	second int64
	kind   int
	n      uint32
}

// tally adds what was counted and not told yet.
func (f *fleet) tally(e *entries) []told {
	var all []told
	from := f.observer.clock().Unix() - toldSpan
	for name, l := range f.observer.book.all() {
		l.unsent(from, func(second int64, kind int, n uint32) {
			e.put(f.keys.second(second+f.ahead()), "count", name+"|"+strconv.Itoa(kind), int64(n))
			all = append(all, told{l, second, kind, n})
		})
	}
	return all
}

// rank adds who was denied and banned, and returns what takes note that nobody was told. Before the secret is known that all have, nobody is named.
func (f *fleet) rank(e *entries, ids *ids) (takeBack func()) {
	if !ids.given && !ids.clear && !f.salted.Load() {
		return func() {}
	}
	now := f.observer.clock()
	denied := f.observer.denied.unsent(now, toldRanks)
	for minute, list := range denied {
		for _, r := range list {
			e.put(f.keys.minute((minute*60+f.ahead())/60), "rank", memberOf(r.who, ids), r.count)
		}
	}
	begun, over := f.observer.bans.unsent()
	for _, b := range begun {
		if left := b.until.Sub(now); left > 0 {
			e.put(f.keys.bans(), "ban", memberOf(b.who, ids), left.Milliseconds())
		}
	}
	for _, w := range over {
		e.put(f.keys.bans(), "lift", memberOf(w, ids), 0)
	}
	return func() {
		f.observer.denied.takeBack(denied)
		f.observer.bans.takeBack(begun, over)
	}
}

// memberOf is how others are told of an id.
func memberOf(w who, ids *ids) string { return w.limit + "\x00" + ids.show(w.id) }

func whoOf(member string) who {
	limit, id, _ := strings.Cut(member, "\x00")
	return who{limit, id}
}

// look reads what all have told.
func (f *fleet) look(ctx context.Context, ids *ids) error {
	now := f.now()
	from := max(f.readTo-tailOf(f.looks), now.Unix()-span)
	f.looks++
	begin := time.Now()
	pipe := f.client.Pipeline()
	seconds := make(map[int64]*redis.MapStringStringCmd)
	for s := from; s <= now.Unix()+1; s++ {
		seconds[s] = pipe.HGetAll(ctx, f.keys.second(s))
	}
	instances := pipe.ZRangeWithScores(ctx, f.keys.instances(), 0, 999)
	bans := pipe.ZRevRangeWithScores(ctx, f.keys.bans(), 0, maxBans-1)
	var ranks []*redis.ZSliceCmd
	for m := range int64(rankMinutes) {
		ranks = append(ranks, pipe.ZRevRangeWithScores(ctx, f.keys.minute(minuteOf(now)-m), 0, shown-1))
	}
	changes := pipe.LRange(ctx, f.keys.changes(), 0, shown-1)
	salt := pipe.Get(ctx, f.keys.salt())
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for s, cmd := range seconds {
		f.note(s, cmd.Val())
	}
	f.readTo = now.Unix()
	f.adopt(salt, ids)
	state := shared{
		read: time.Now(), trip: time.Since(begin), instances: f.presences(instances.Val(), now), top: topOf(ranks),
		bans: f.banned(bans.Val(), now), changes: changesOf(changes.Val()),
	}
	f.mu.Lock()
	f.state = state
	f.mu.Unlock()
	return nil
}

// adopt makes the ids be shown by the secret that all have.
func (f *fleet) adopt(salt *redis.StringCmd, ids *ids) {
	text, err := salt.Result()
	if ids.given || ids.clear || err == nil && text != "" {
		if !ids.given && !ids.clear {
			ids.share([]byte(text))
		}
		f.salted.Store(true)
	}
}

// maxField is how long the name of a count is at most, in bytes: more than any lane is called, whose name is of words in a program.
const maxField = 4096

// record lists a change for all.
func (f *fleet) record(ctx context.Context, c change) error {
	ctx, cancel := context.WithTimeout(ctx, callBudget)
	defer cancel()
	text, _ := json.Marshal(c)
	e := newEntries(f.keys)
	e.put(f.keys.changes(), "note", string(text), shown)
	e.keep()
	_, err := e.write(ctx, f.client)
	return err
}

// note takes in what all have counted in a second.
func (f *fleet) note(second int64, fields map[string]string) {
	sums := make(map[string][]uint32)
	for field, text := range fields {
		at := strings.LastIndexByte(field, '|')
		n, err := strconv.ParseUint(text, 10, 32)
		if at < 0 || len(field) > maxField || err != nil {
			continue // not of this package
		}
		name := field[:at]
		kind, err := strconv.Atoi(field[at+1:])
		if err != nil || kind < 0 || kind >= widthOf(name) {
			continue
		}
		if sums[name] == nil {
			sums[name] = make([]uint32, widthOf(name))
		}
		sums[name][kind] = uint32(n)
	}
	for name, counts := range sums {
		f.book.lane(name).set(second, counts)
	}
}

// presences are the instances that are there, by their names.
func (f *fleet) presences(members []redis.Z, now time.Time) []presence {
	var all []presence
	at := make(map[string]int)
	for _, m := range members {
		var p presence
		text, _ := m.Member.(string)
		if json.Unmarshal([]byte(text), &p) != nil {
			continue
		}
		p.seen = time.UnixMilli(int64(m.Score))
		if now.Sub(p.seen) > attendance {
			continue
		}
		if i, ok := at[p.ID]; ok {
			all[i] = p // the later one
			continue
		}
		at[p.ID] = len(all)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b presence) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return all
}

// banned are the bans that last, by this process's clock.
func (f *fleet) banned(members []redis.Z, now time.Time) []ban {
	var all []ban
	for _, m := range members {
		text, _ := m.Member.(string)
		if left := time.UnixMilli(int64(m.Score)).Sub(now); left > 0 {
			all = append(all, ban{who: whoOf(text), until: f.observer.clock().Add(left)})
		}
	}
	sortBans(all)
	return all
}

// topOf adds up who was denied in the last minutes.
func topOf(minutes []*redis.ZSliceCmd) []ranked {
	sums := make(map[who]int64)
	for _, minute := range minutes {
		for _, m := range minute.Val() {
			text, _ := m.Member.(string)
			sums[whoOf(text)] += int64(m.Score)
		}
	}
	return largest(sums, shown)
}
