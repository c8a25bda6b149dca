package redislock

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

// maxName is how many bytes an escaped name may have in a key; a longer one is replaced by its hash.
const maxName = 128

// keys are those of one name, all in one slot of a Redis Cluster, as strings. Only locks have a token.
type keys struct{ held, token, queue any }

// maxKept is of how many names the keys are kept.
const maxKept = 1024

// keyring keeps the keys of locks by name: making them takes longer than all else that a caller does.
type keyring struct {
	latest atomic.Pointer[named]
	mu     sync.Mutex
	kept   map[string]*named
}

// named are the keys of a name.
type named struct {
	keys
	name string
}

// get returns the keys of a name, nil if they are not kept. Those of the name that was asked for before are found without a lock: who lets go is often who was the last to acquire.
func (r *keyring) get(name string) *keys {
	if k := r.latest.Load(); k != nil && k.name == name {
		return &k.keys
	}
	r.mu.Lock()
	k := r.kept[name]
	r.mu.Unlock()
	if k == nil {
		return nil
	}
	r.latest.Store(k)
	return &k.keys
}

func (r *keyring) put(k *named) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) >= maxKept || r.kept == nil {
		r.kept = map[string]*named{}
	}
	r.kept[k.name] = k
}

func (s *Store) keys(c *lock.Claim) *keys {
	if c.Limit > 0 {
		queue := s.prefix + ":sem:{" + escape(c.Name) + "}:queue"
		return &keys{held: strings.TrimSuffix(queue, ":queue"), queue: queue}
	}
	if k := s.keyring.get(c.Name); k != nil {
		return k
	}
	token := s.prefix + ":lock:{" + escape(c.Name) + "}:token"
	held := strings.TrimSuffix(token, ":token")
	k := &named{keys: keys{held, token, held + ":queue"}}
	if len(c.Name) <= maxName {
		k.name = strings.Clone(c.Name)
		s.keyring.put(k)
	}
	return &k.keys
}

// escape is name as it may stand in a hash tag. Different names are different then, too.
func escape(name string) string {
	if plain(name) {
		return name
	}
	b := make([]byte, 0, 3*len(name)+2)
	for _, c := range []byte(name) {
		if keeps(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	if len(name) == 0 {
		return "%" // an empty tag is none
	}
	if len(b) > maxName {
		sum := sha256.Sum256([]byte(name))
		b = hex.AppendEncode(append(b[:0], '~'), sum[:])
	}
	return string(b)
}

const upperHex = "0123456789ABCDEF"

func plain(name string) bool {
	for i := range len(name) {
		if !keeps(name[i]) {
			return false
		}
	}
	return 0 < len(name) && len(name) <= maxName
}

// keeps says whether c stands for itself: not what ends a tag, begins an escape or a hash, or is not to be seen.
func keeps(c byte) bool {
	switch c {
	case '{', '}', '%', '~':
		return false
	}
	return c > ' ' && c < 0x7f
}
