package memstore_test

import (
	"testing"

	"github.com/rlgen/rlgen/ratelimit/memstore"
	"github.com/rlgen/rlgen/ratelimit/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Subject {
		clock := storetest.NewClock()
		return storetest.Subject{Store: memstore.New(memstore.WithClock(clock.Now)), Clock: clock}
	})
}
