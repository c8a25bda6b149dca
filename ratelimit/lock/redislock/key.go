package redislock

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/rlgen/rlgen/ratelimit/lock"
)

// maxName is how many bytes an escaped name may have in a key; a longer one is replaced by its hash.
const maxName = 128

// keys are those of one name, all in one slot of a Redis Cluster.
type keys struct{ held, token, queue, alive string }

func (s *Store) keys(c lock.Claim) keys {
	kind := ":sem:{"
	if c.Limit == 0 {
		kind = ":lock:{"
	}
	held := s.prefix + kind + escape(c.Name) + "}"
	return keys{held, held + ":token", held + ":queue", held + ":alive"}
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
