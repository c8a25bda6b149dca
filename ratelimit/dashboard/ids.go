package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"sync/atomic"
)

// ids says how ids are shown. The zero ids hash by a secret that nobody knows, once they are ready.
type ids struct {
	clear  bool
	given  bool // the secret is the team's
	secret atomic.Pointer[[]byte]
}

// ready makes a secret where there is none.
func (i *ids) ready() {
	if i.secret.Load() == nil {
		i.share([]byte(rand.Text()))
	}
}

func (i *ids) share(secret []byte) {
	secret = append([]byte{}, secret...)
	i.secret.Store(&secret)
}

// idBytes of a hash tell ids apart; as many as lines of denials have.
const idBytes = 8

// show returns what is shown of an id as keys have it, such as "user=42".
func (i *ids) show(id string) string {
	if i.clear || id == "" {
		return id
	}
	kind, _, _ := strings.Cut(id, "=")
	mac := hmac.New(sha256.New, *i.secret.Load())
	mac.Write([]byte(id))
	return kind + " #" + hex.EncodeToString(mac.Sum(nil)[:idBytes])
}

// readable returns an id that is shown as callers write it.
func readable(id string) string {
	if kind, text, ok := strings.Cut(id, "="); ok {
		if plain, err := url.PathUnescape(text); err == nil {
			return kind + " " + plain
		}
	}
	return id
}
