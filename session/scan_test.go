package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

// reflected is a value as encoding/json alone writes it.
func reflected(t failer, v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatalf("encode %T: %v", v, err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestRecord_isWrittenAsEncodingJSONWouldWriteIt(t *testing.T) {
	property.Check(t, func(t *property.T) {
		s := newSession(t)
		s, err := s.With(noon, change(s).Draw(t, "change"))
		if err != nil {
			t.Skip(err)
		}
		for _, r := range session.Unsaved(s) {
			raw, err := r.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			want := fmt.Sprintf(`{"seq":%d,"at":%s,"kind":%s,"data":%s}`, r.Seq, reflected(t, r.At), reflected(t, r.Change.Kind()), reflected(t, r.Change))
			if string(raw) != want {
				t.Fatalf("wrote %s\n want %s", raw, want)
			}
		}
	})
}

func TestDocument_isWrittenAsEncodingJSONWouldWriteIt(t *testing.T) {
	property.Check(t, func(t *property.T) {
		s := newSession(t)
		for range t.Repeat(0, 8) {
			if next, err := s.With(noon, change(s).Draw(t, "change")); err == nil {
				s = next
			}
		}
		s = session.Seal(s, noon)
		parts := struct {
			Format        string             `json:"format"`
			FormatVersion int                `json:"formatVersion"`
			Header        session.Info       `json:"header"`
			Definition    session.Definition `json:"definition"`
			State         session.State      `json:"state"`
			Spans         []session.Span     `json:"spans,omitempty"`
		}{Format: session.Format, FormatVersion: session.FormatVersion, Header: s.Info(), Definition: s.Definition(), State: s.State()}
		raw, err := s.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if want := reflected(t, parts); string(raw) != want {
			t.Fatalf("wrote document %s\n want %s", raw, want)
		}
		parts.Format, parts.State.Messages, parts.Spans = "holdfast.head", []session.Message{}, session.Spans(s)
		if raw, err = session.EncodeHead(s); err != nil {
			t.Fatal(err)
		}
		if want := reflected(t, parts); string(raw) != want {
			t.Fatalf("wrote head %s\n want %s", raw, want)
		}
	})
}

// agree fails where the fast way accepts what the strict one refuses, or makes
// something else of it.
func agree(t failer, data []byte) (scanned bool) {
	fast, ok := session.ScanRecord(data)
	if !ok {
		return false
	}
	strict, err := session.DecodeRecord(data)
	if err != nil {
		t.Fatalf("%s is taken although %v", data, err)
	}
	if !reflect.DeepEqual(fast, strict) {
		t.Fatalf("%s is\n %+v to the fast decoder and\n %+v to the strict one", data, fast, strict)
	}
	return true
}

func TestRecord_fastAndStrictDecoderAgree(t *testing.T) {
	written := 0
	property.Check(t, func(t *property.T) {
		s := newSession(t)
		s, err := s.With(noon, change(s).Draw(t, "change"))
		if err != nil {
			t.Skip(err)
		}
		for _, r := range session.Unsaved(s) {
			raw, err := r.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if agree(t, raw) {
				written++
			}
			// One byte elsewhere, left out, or another one.
			at := property.IntRange(0, len(raw)-1).Draw(t, "at")
			agree(t, append(bytes.Clone(raw[:at]), raw[at+1:]...))
			other := bytes.Clone(raw)
			other[at] = property.SampledFrom([]byte(`",:{}[]\ 0n`)).Draw(t, "byte")
			agree(t, other)
		}
	})
	if written == 0 {
		t.Error("no record as it is written was read the fast way")
	}
}

func TestRecord_plainMessagesAreReadTheFastWay(t *testing.T) {
	s := newSession(t)
	for i := range 4 {
		s = apply(t, s, session.MessageAdded{Message: turn(i)})
	}
	for _, r := range session.Unsaved(s)[1:] {
		raw, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if !agree(t, raw) {
			t.Errorf("%s is left to the strict decoder", raw)
		}
	}
}

func FuzzRecord_fastAndStrictDecoderAgree(f *testing.F) {
	files, err := filepath.Glob("testdata/changes/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no samples", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte(`{"seq":2,"at":"2026-01-02T03:04:05Z","kind":"message_added","data":{"message":{"id":"m","seq":2,"createdAt":"2026-01-02T03:04:05Z","role":"user","content":"a\u00e9\n"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, data) })
}

// A header is read in one pass if it has the written form. A space in front makes
// the strict decoder read it, which must find the same.
func TestDecodeHeader_bothWaysFindTheSame(t *testing.T) {
	t.Parallel()
	strict := func(text string) (session.Info, error) { return session.DecodeHeader([]byte(" " + text)) }
	same := func(text string) {
		t.Helper()
		fast, err := session.DecodeHeader([]byte(text))
		slow, slowErr := strict(text)
		if (err == nil) != (slowErr == nil) || !reflect.DeepEqual(fast, slow) {
			t.Errorf("%s\n read as %+v, %v\n want %+v, %v", text, fast, err, slow, slowErr)
		}
	}
	score, later := 0.5, noon.Add(1000)
	full := session.Info{
		ID: "s", Name: "Zoë \"quoted\"", Tenant: "t", UserID: "u", ParentID: "p", Origin: session.OriginFork, Kind: session.KindTask,
		Fork:     &session.ForkPoint{Version: 1, Seq: 2, Depth: 3},
		Task:     &session.TaskRow{Title: "a", Prompt: "b", Status: "c", StopReasons: []string{"d"}, LastProgressScore: &score},
		Workflow: &session.WorkflowRow{Name: "w", Status: "s"}, Depth: 1, Status: session.Active, Version: 4, Seq: 9,
		AgentName: "a", AgentLabel: "A", MessageCount: 5, Pending: 1, CreatedAt: noon, UpdatedAt: noon, ExpiresAt: &later,
	}
	for _, info := range []session.Info{full, newSession(t).Info()} {
		raw, err := info.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"format":%q,"formatVersion":%d,"header":%s}`, session.Format, session.FormatVersion, raw)
		if got, err := session.DecodeHeader([]byte(text)); err != nil || !reflect.DeepEqual(got, info) {
			t.Fatalf("%s\n read as %+v, %v", text, got, err)
		}
		for i := 0; i < len(text); i += 3 {
			same(text[:i])
			same(text[:i] + text[i+1:])
			for _, c := range []string{`"`, "0", "}", "\\", "\xff"} {
				same(text[:i] + c + text[i+1:])
			}
			same(text[:i] + ",-"[i%2:] + text[i:])
		}
		same(strings.Replace(text, `"depth":`, `"depth":1,"depth":`, 1))
		same(strings.Replace(text, `"version":`, `"version":99999999999999999999,"x":`, 1))
		same(strings.Replace(text, `"parentId"`, `"ParentId"`, 1))
		same(text + "whatever follows")
		written, err := noon.MarshalText()
		if err != nil || !strings.Contains(text, string(written)) {
			t.Fatalf("%s is not in %s, %v", written, text, err)
		}
		for _, other := range []string{
			"2026-01-02T3:04:05Z", "2026-01-02T03:04:05,5Z", "2026-01-02T3:04:05.55Z", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05.123456789Z",
			"2026-01-02T03:04:05.1234567891Z", "2026-01-02T24:00:00Z", "2026-02-30T03:04:05Z", "2026-01-02T03:04:60Z", "2026-01-02T03:04:05+01:00",
			"2026-01-02T03:04:05+25:00", "2026-01-02T03:04:05.5+01:00", "2026-01-02 03:04:05Z", "2026-01-02T03:04:05z", "2026-01-02T03:04:05ZZ", "",
		} {
			same(strings.Replace(text, string(written), other, 1))
		}
	}
}

// Eight bytes at a time are passed over if none of them is a quote, a backslash or
// a control character, whatever stands beside it.
func TestScanner_passesOverPlainText(t *testing.T) {
	t.Parallel()
	for _, filler := range []byte{'a', ' ', '!', '#', '[', ']', 0x7f, 0x80, 0xff} {
		for at := range 20 {
			for c := range 256 {
				text := bytes.Repeat([]byte{filler}, 20)
				text[at] = byte(c)
				want := 16
				if c == '"' || c == '\\' || c < ' ' {
					want = min(16, at/8*8)
				}
				if got := session.PlainLength(string(text)); got != want {
					t.Fatalf("%q: %d, want %d", text, got, want)
				}
			}
		}
	}
}

// writtenHeader is the beginning of a document as stores keep it.
func writtenHeader(t testing.TB) []byte {
	t.Helper()
	info := session.Info{
		ID: "0195a3c4-7b1e-7c3a-9f00-000000000001", Tenant: "default", Origin: session.OriginRoot, Kind: session.KindChat, Status: session.Active,
		Version: 4, Seq: 9, AgentName: "agent", AgentLabel: "Agent", MessageCount: 5, CreatedAt: noon, UpdatedAt: noon,
	}
	raw, err := info.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"format":%q,"formatVersion":%d,"header":%s}`, session.Format, session.FormatVersion, raw)
}

// A listing decodes a header for every session that it shows.
func TestDecodeHeader_allocatesLittle(t *testing.T) {
	data := writtenHeader(t)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := session.DecodeHeader(data); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 2 {
		t.Errorf("%v allocations to read a header, want at most 2", allocs)
	}
}

func BenchmarkDecodeHeader(b *testing.B) {
	text := writtenHeader(b)
	for name, data := range map[string][]byte{"written": text, "other": append([]byte(" "), text...)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := session.DecodeHeader(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
