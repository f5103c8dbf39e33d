package holdfast_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/store/inmem"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// TestClose_returnsWhenTheStoreDoesNotAnswer lets the store fall silent at each
// call of a turn, for good, and closes the runtime.
func TestClose_returnsWhenTheStoreDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for silentFrom, over := int64(1), false; !over; silentFrom++ {
		synctest.Test(t, func(t *testing.T) { over = closesThoughSilent(t, silentFrom) })
	}
}

// closesThoughSilent reports whether the turn was over before the store fell
// silent.
func closesThoughSilent(t *testing.T, silentFrom int64) (over bool) {
	var calls atomic.Int64
	calls.Store(-1 << 32) // until the turn begins
	st := storetest.Faulty(inmem.New(inmem.Config{}), func(string, int) error {
		if calls.Add(1) >= silentFrom {
			return storetest.ErrHang
		}
		return nil
	})
	model := scripted.New(scripted.Reply{Text: "hello"})
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": model}, DefaultModel: "demo"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.Create(t.Context(), agentDef)
	if err != nil {
		t.Fatal(err)
	}
	calls.Store(0)
	ended := make(chan error, 1)
	go func() {
		_, err := rt.Execute(t.Context(), s.ID(), holdfast.SendMessage{Text: "hi"})
		ended <- err
	}()
	synctest.Wait()
	over = calls.Load() < silentFrom
	closed := make(chan error, 1)
	go func() { closed <- rt.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Errorf("silent from call %d on: close: %v", silentFrom, err)
		}
	case <-time.After(time.Hour):
		t.Fatalf("silent from call %d on: Close has not returned after an hour", silentFrom)
	}
	if err := <-ended; over && err != nil {
		t.Errorf("the undisturbed turn ended with %v", err)
	}
	return over
}
