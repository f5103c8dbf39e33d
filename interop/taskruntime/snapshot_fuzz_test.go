package taskruntime_test

import (
	"errors"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/taskruntime"
	"github.com/holdfast-dev/holdfast/session"
)

// FuzzImport: no file makes the reader panic; what is refused is refused with
// a typed error; what is taken can be exported, and the export imported again
// says the same.
func FuzzImport(f *testing.F) {
	f.Add([]byte(foreign))
	f.Add([]byte(legacy("hello")))
	f.Add([]byte(`[{"type":"user_message","payload":{"message":"m"}},{"type":"tool_call","payload":{"tool":"t"}},{"type":"step_started","payload":{"step":{"id":"1"}}}]`))
	f.Add([]byte(`{"type":"plan_created","payload":{"plan":{"steps":[{},{}]}}}` + "\n" + `{"legacyType":"step_failed","payload":{"step":{"id":"step-1"},"error":"e"}}`))
	f.Add([]byte(`{"schema":"session_runtime_v2","version":2,"conversationHistory":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":1}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"image"},{"type":"file"}]}],"transcript":{},"tooling":{"toolUsageCounts":[["a",1],["a",2]]},"files":{},"loop":{"x":null},"recovery":{},"queues":{"pendingFollowUps":[{"message":"m","images":7}]},"worker":{"verificationAgentState":[]},"verification":{},"loop.x":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := importing(t)
		in, err := s.importData(data, taskruntime.ImportOptions{ID: "first"})
		if err != nil {
			if !errors.Is(err, session.ErrSnapshot) && !errors.Is(err, session.ErrUnsupportedVersion) && !errors.Is(err, session.ErrInvalid) {
				t.Fatalf("an error of no kind: %v", err)
			}
			s.nothingMade()
			return
		}
		raw := s.export(in.Row.ID, taskruntime.ExportOptions{})
		if _, err := s.importData(raw, taskruntime.ImportOptions{ID: "second"}); err != nil {
			t.Fatalf("what was exported cannot be imported: %v\n%s", err, raw)
		}
		again := s.export("second", taskruntime.ExportOptions{})
		for _, key := range keysOf(t, raw) {
			switch key {
			case "sessionId", "seq", "digest", "estimatedSizeBytes":
				continue
			}
			if have, want := string(at(t, again, key)), string(at(t, raw, key)); have != want {
				t.Fatalf("%s:\nhave %s\nwant %s", key, have, want)
			}
		}
	})
}
