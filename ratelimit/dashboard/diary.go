package dashboard

import (
	"encoding/json"
	"sync"
	"time"
)

// change is something that was done by way of the page.
type change struct {
	When int64  `json:"when"` // ms
	Who  string `json:"who"`
	What string `json:"what"`
}

// diary is the latest changes of this instance, the latest first. The zero diary is empty.
type diary struct {
	mu   sync.Mutex
	list []change
}

func (d *diary) add(c change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append([]change{c}, d.list[:min(len(d.list), shown-1)]...)
}

func (d *diary) latest() []change {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]change{}, d.list...)
}

// changesKept is how long changes are told of.
const changesKept = 7 * 24 * time.Hour

// changesOf reads changes that were written as JSON; what is none is left out.
func changesOf(texts []string) []change {
	var all []change
	for _, text := range texts {
		var c change
		if json.Unmarshal([]byte(text), &c) == nil {
			all = append(all, c)
		}
	}
	return all
}
