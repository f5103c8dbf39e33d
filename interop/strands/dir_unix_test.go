//go:build unix

package strands_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/strands"
)

// A pipe in the place of pattern_state.json holds the reader up between its two
// files, while a save takes place.
func TestLoad_looksAgainWhenASaveCameBetween(t *testing.T) {
	t.Parallel()
	d := sessionDir(t)
	s := chainState(t)
	s.Holdfast = &strands.Extension{Version: 1}
	if err := d.Save(s, nil); err != nil {
		t.Fatal(err)
	}
	pattern := filepath.Join(string(d), "pattern_state.json")
	if err := os.Remove(pattern); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pattern, 0o600); err != nil {
		t.Fatal(err)
	}
	type result struct {
		state strands.State
		err   error
	}
	loaded := make(chan result)
	go func() {
		state, err := d.Load()
		loaded <- result{state, err}
	}()
	pipe, err := os.OpenFile(pattern, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	s.Holdfast.Version = 2
	s.Pattern = object(t, `{"current_step":2}`)
	saved := d.Save(s, nil)
	_, err = pipe.WriteString("{\n  \"current_step\": 2\n}")
	if closed := pipe.Close(); err != nil || closed != nil || saved != nil {
		t.Errorf("%v, %v, %v", err, closed, saved)
	}
	got := <-loaded
	if got.err != nil || got.state.Holdfast.Version != 2 {
		t.Errorf("state is %+v (%v), want version 2", got.state, got.err)
	}
}
