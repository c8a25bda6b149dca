package lock

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestTurnEndsWithItsContext holds that who nests while another who nests is not answered waits for no longer than his context lasts.
func TestTurnEndsWithItsContext(t *testing.T) {
	lined(t, func(t *testing.T, s *counted, l *Locker) {
		ctx, hold := must(t, l)
		s.stuck.Store(true)
		go func() {
			if _, nested, err := l.Lock(ctx, "it"); err != nil {
				t.Errorf("nested Lock = %v, want nil", err)
			} else {
				nested.Unlock()
			}
		}()
		time.Sleep(time.Second)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		began := time.Now()
		if _, _, err := l.Lock(short, "it"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("nested Lock = %v after %v, want %v after 1s", err, time.Since(began), context.DeadlineExceeded)
		}
		time.Sleep(time.Minute)
		hold.Unlock()
	})
}
