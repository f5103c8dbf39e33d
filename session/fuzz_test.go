package session_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

// FuzzDecode: no document makes the decoder panic, what is refused is refused
// with a typed error, and what is taken reaches a fixed point at once.
func FuzzDecode(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "document_v1.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(document(f, newSession(f)))
	f.Add([]byte(`{"format":"holdfast.session","formatVersion":1,"header":{},"definition":{},"state":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := session.Decode(data)
		if err != nil {
			if !errors.Is(err, session.ErrInvalid) && !errors.Is(err, session.ErrNewerFormat) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		first := document(t, s)
		again, err := session.Decode(first)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		sameBytes(t, "the second encoding", document(t, again), first)
		sameParts(t, again, s)
		if info, err := session.DecodeHeader(first); err != nil || info.ID != s.ID() {
			t.Fatalf("header alone: %+v, %v", info, err)
		}
		head, err := session.EncodeHead(session.Seal(s, noon))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.DecodeHead(head, s.Messages()); err != nil {
			t.Fatalf("its head: %v", err)
		}
	})
}

// FuzzRecord is the same for one change.
func FuzzRecord(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "changes", "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("%d golden files, %v", len(files), err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r session.Record
		if err := r.UnmarshalJSON(data); err != nil {
			if !errors.Is(err, session.ErrInvalid) && !errors.Is(err, session.ErrNewerFormat) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		first, err := r.MarshalJSON()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		var again session.Record
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		second, err := again.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		sameBytes(t, "the second encoding", second, first)
		s := sampleSession(t) // applying a stranger's change may be refused, never more
		if next, err := session.ApplyTail(s, []session.Record{{Seq: s.Seq() + 1, At: r.At, Change: r.Change}}); err == nil {
			if _, err := session.Decode(document(t, session.Seal(next, noon))); err != nil {
				t.Fatalf("after %s: %v", first, err)
			}
		}
	})
}
