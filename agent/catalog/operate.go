package catalog

import (
	"cmp"
	"fmt"
	"time"
)

// Drain is an operator's wish that an instance gets no new clients.
type Drain struct {
	Reason string    `json:",omitempty"`
	Until  time.Time `json:",omitzero"` // then its clients are moved too; zero: they stay for as long as they come
}

// set is a weight that an operator chose, in place of the registered one.
type set struct {
	Weight     int
	Registered int // what it takes the place of: another registered weight counts again
}

// SetMaintenance takes an instance out of service, or back in. It is kept over
// restarts.
func (l *Local) SetMaintenance(id string, on bool, reason string) error {
	err := l.edit(id, func(o *owned) {
		o.maint, o.reason = on, ""
		if on {
			o.reason = cmp.Or(cut(reason), "in maintenance")
		}
	})
	if err != nil {
		return fmt.Errorf("maintenance of %s: %w", id, err)
	}
	return nil
}

// SetDrain makes an instance take no new clients, or, with nil, take them
// again. It is kept over restarts.
func (l *Local) SetDrain(id string, d *Drain) error {
	if d != nil {
		d = &Drain{Reason: cut(d.Reason), Until: d.Until.Round(0)}
	}
	if err := l.edit(id, func(o *owned) { o.drain = d }); err != nil {
		return fmt.Errorf("drain %s: %w", id, err)
	}
	return nil
}

// SetWeight gives an instance another weight, whatever its registration or the
// configuration says, until those say something new. It is kept over restarts.
func (l *Local) SetWeight(id string, weight int) error {
	if weight < 0 || weight > MaxWeight {
		return fmt.Errorf("weight %d of %s: %w: must be 0 to %d", weight, id, ErrInvalid, MaxWeight)
	}
	err := l.edit(id, func(o *owned) {
		o.set = nil
		if weight != *o.reg.Weight {
			o.set = &set{Weight: weight, Registered: *o.reg.Weight}
		}
	})
	if err != nil {
		return fmt.Errorf("weight of %s: %w", id, err)
	}
	return nil
}

// Expire tells the others of drains whose time is over, and returns the ids of
// those instances. It is to be called every now and then.
func (l *Local) Expire(now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for id, o := range l.own {
		if o.reg.Name != "" && !o.moved && o.over(now) {
			o.moved = true
			l.publishLocked(o)
			out = append(out, id)
		}
	}
	return out
}

// over reports whether the time of its drain is over.
func (o *owned) over(now time.Time) bool {
	return o.drain != nil && !o.drain.Until.IsZero() && !now.Before(o.drain.Until)
}

// weight is the one in force.
func (o *owned) weight() int {
	if o.set != nil && o.set.Registered == *o.reg.Weight {
		return o.set.Weight
	}
	return *o.reg.Weight
}
