package openaiagents

import (
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

// Whatever an item is, its session is refused as corrupt or becomes a valid
// conversation.
func FuzzAppendConversation(f *testing.F) {
	for _, item := range []string{
		`{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"data:;base64,!"}]}`,
		`{"type":"function_call","call_id":"c1","name":"f","arguments":"not JSON"}`, `{"type":"function_call_output","call_id":"c1","output":{"x":1}}`,
		`{"role":"king","content":7}`, `{"type":"reasoning","summary":null}`, `5`, `{`,
	} {
		f.Add(item, item)
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		all, err := appendConversation(nil, []row{{session: "s", data: `{"role":"user","content":"x"}`}, {session: "s", data: one}, {session: "s", data: two}})
		for _, c := range all {
			var s session.Session
			if s, _, err = c.Session(foreign.Options{}); err == nil {
				if err := session.ValidTranscript(s.Messages()); err != nil {
					t.Fatalf("an invalid transcript: %v", err)
				}
			}
		}
		if err != nil && !errors.Is(err, session.ErrCorrupt) {
			t.Errorf("%v", err)
		}
	})
}
