package dashboard

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/rules"
)

// limitView is a limit as the page shows it.
type limitView struct {
	ID        string `json:"id"` // its lane
	Method    string `json:"method"`
	Package   string `json:"package"`
	Name      string `json:"name"`
	Handle    string `json:"handle"` // what overrides call it
	Kind      string `json:"kind"`   // whose calls it counts
	At        string `json:"at,omitempty"`
	Directive string `json:"directive"`
	Now       string `json:"now,omitempty"` // the directive that holds, where that is another
	Override  string `json:"-"`
	Told      string `json:"override,omitempty"` // Override, or its beginning
	Long      bool   `json:"long,omitempty"`     // which is no text to write anew
	From      string `json:"from,omitempty"`     // where the override stands
	Mode      string `json:"mode"`               // enforce, shadow or off
	Plan      string `json:"plan,omitempty"`
	OnFail    string `json:"onfail"`
	Holds     bool   `json:"holds,omitempty"` // a concurrency or a lock, of which no ids can be asked
	Bans      bool   `json:"bans,omitempty"`
	Computed  bool   `json:"computed,omitempty"` // its rules, by the program for each caller
}

// mostListed is how many bytes the list of limits has of an override: more than one with all rules and options that a limit may have needs.
const mostListed = 1000

// limitsOf are the limits of a survey, by method and in the order of their directives.
func (d *Dashboard) limitsOf(s ratelimit.Survey) []limitView {
	policies := slices.Clone(s.Policies)
	slices.SortStableFunc(policies, func(a, b rules.Overridden) int {
		return cmp.Compare(methodOf(a.Written), methodOf(b.Written))
	})
	all := []limitView{}
	for _, p := range policies {
		for i := range p.Written.Limits {
			v := d.limit(s.Mode, p, i)
			v.Computed = s.Computes && !v.Holds
			all = append(all, v)
		}
	}
	return all
}

func (d *Dashboard) limit(mode rules.Mode, p rules.Overridden, i int) limitView {
	written, now := &p.Written.Limits[i], p.Policy.Limits[i]
	v := limitView{
		ID: laneOf(p.Written, i), Method: methodOf(p.Written), Package: p.Written.Package, Name: p.Written.Name(i),
		Handle: p.Written.Type + "." + p.Written.Name(i), Kind: written.Whose().String(), Directive: written.String(), Plan: written.Plan,
		OnFail: now.OnFail.String(), Mode: now.Mode.String(), Holds: written.Kind.Holds(), Bans: written.Ban > 0,
	}
	v.At = d.places[v.ID]
	if mode == rules.Shadow {
		v.Mode = mode.String()
	}
	now.Name = written.Name
	if p.By != nil && p.By[i] != nil {
		v.Override, v.From = p.By[i].Text, p.By[i].At.String()
		v.Told = rules.Brief(v.Override, mostListed)
		v.Long = v.Told != v.Override
		v.Now = now.String()
	}
	if p.Off != nil && p.Off[i] {
		v.Mode, v.Now = "off", ""
	}
	return v
}

// versionOf is the version of rules: of directives and of what overrides them.
func versionOf(limits []limitView) string {
	sum := sha256.New()
	for _, l := range limits {
		fmt.Fprintf(sum, "%q %q %q\n", l.ID, l.Directive, l.Override)
	}
	return hex.EncodeToString(sum.Sum(nil)[:4])
}

// presence is what this instance says of itself.
func (d *Dashboard) presence() presence {
	return presence{ID: d.member, Name: d.instance, Rules: versionOf(d.limitsOf(d.limiter.Survey())), Started: d.began.Unix()}
}
