package letta_test

import (
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/interop/letta"
	"github.com/holdfast-dev/holdfast/session"
)

// Whatever a file has, it is refused as corrupt or becomes valid conversations.
func FuzzRead(f *testing.F) {
	f.Add([]byte(file))
	f.Add([]byte(`{"agents":[{"id":"a","messages":[{"role":"wizard","content":7},{"role":"user","content":{"x":1}},{"role":"tool","content":"r"}]}],"blocks":[]}`))
	f.Add([]byte(`{"agent_type":"x","messages":[{"role":"user","text":"hi"}],"core_memory":[{"label":"\n"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		letta.Detect(data)
		all, err := letta.Read(data)
		for _, c := range all {
			s, _, made := c.Session(foreign.Options{})
			if made == nil {
				if err := session.ValidTranscript(s.Messages()); err != nil {
					t.Fatalf("an invalid transcript: %v", err)
				}
			}
			err = errors.Join(err, made)
		}
		if err != nil && !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%v", err)
		}
	})
}
