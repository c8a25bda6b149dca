package ratelimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"sync"
)

// minSecret is how many bytes a secret has at least.
const minSecret = 16

// hasher hashes ids by SHA-256, keyed if there is a secret. It is safe for concurrent use.
type hasher struct {
	secret []byte
	idle   sync.Pool // of *hashing
}

// unkeyed has no secret.
var unkeyed = newHasher(nil)

func newHasher(secret []byte) *hasher {
	h := &hasher{secret: secret}
	h.idle.New = func() any {
		if secret == nil {
			return &hashing{Hash: sha256.New()}
		}
		return &hashing{Hash: hmac.New(sha256.New, secret)}
	}
	return h
}

// hashing is of one id at a time.
type hashing struct {
	hash.Hash
	room [128]byte // where an id is on its way in, and its hash on its way out
}

// appendHash appends the first size bytes of the hash of id, in hexadecimal.
func appendHash[S string | []byte](b []byte, by *hasher, id S, size int) []byte {
	h := by.idle.Get().(*hashing)
	defer by.idle.Put(h)
	h.Reset()
	for len(id) > 0 {
		n := copy(h.room[:], id)
		h.Write(h.room[:n])
		id = id[n:]
	}
	b = hex.AppendEncode(b, h.Sum(h.room[:0])[:size])
	clear(h.room[:]) // what is hashed is to be nowhere in the clear
	return b
}
