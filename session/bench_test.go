package session_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

func conversation(b failer, messages int) session.Session {
	s := newSession(b)
	for i := range messages {
		s = apply(b, s, session.MessageAdded{Message: turn(i)})
	}
	return s
}

// turn is the i-th message of a conversation with tools.
func turn(i int) session.Message {
	m := session.Message{ID: fmt.Sprintf("m-%d", i), Role: session.RoleUser, Content: session.Text("Do I need a coat in Oslo tomorrow, or is an umbrella enough?")}
	switch i % 4 {
	case 1:
		m.Role = session.RoleAssistant
		m.ToolCalls = []session.ToolCall{{ID: fmt.Sprintf("c-%d", i), Name: "forecast", Arguments: []byte(`{"city":"Oslo","days":1}`)}}
	case 2:
		m.Role = session.RoleTool
		m.ToolResult = &session.ToolResult{CallID: fmt.Sprintf("c-%d", i-1), ToolName: "forecast", Content: "rain, 7 degrees, wind from the west"}
	case 3:
		m.Role = session.RoleAssistant
	}
	return m
}

// BenchmarkAppend must cost the same at every length.
func BenchmarkAppend(b *testing.B) {
	for _, length := range []int{10, 1_000, 100_000} {
		b.Run(fmt.Sprint(length), func(b *testing.B) {
			s := session.Seal(conversation(b, length), noon)
			m := turn(0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.WithMessage(m, noon); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	s := session.Seal(conversation(b, 2_000), noon)
	b.SetBytes(int64(len(document(b, s))))
	b.ReportAllocs()
	for b.Loop() {
		document(b, s)
	}
}

func BenchmarkDecode(b *testing.B) {
	raw := document(b, session.Seal(conversation(b, 2_000), noon))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := session.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFold(b *testing.B) {
	log := session.Unsaved(conversation(b, 2_000))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := session.Fold(log); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAppend_costDoesNotGrowWithTheSession counts allocations, which do not
// depend on how busy the machine is.
func TestAppend_costDoesNotGrowWithTheSession(t *testing.T) {
	allocations := func(length int) float64 {
		s := session.Seal(conversation(t, length), noon)
		return testing.AllocsPerRun(50, func() { say(t, s, "more") })
	}
	short, long := allocations(10), allocations(20_000)
	if long > short+5 { // a deeper tree, at most
		t.Errorf("%v allocations at 20,000 messages, %v at 10", long, short)
	}
}

// BenchmarkRecord is a message of a kilobyte as a store writes and reads it.
func BenchmarkRecord(b *testing.B) {
	s := conversation(b, 1)
	s, err := s.WithMessage(session.Message{ID: "m", Role: session.RoleUser, Content: session.Text(strings.Repeat("words ", 170))}, noon)
	if err != nil {
		b.Fatal(err)
	}
	pending := session.Unsaved(s)
	record := pending[len(pending)-1]
	raw, err := record.MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := record.MarshalJSON(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var r session.Record
			if err := r.UnmarshalJSON(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkHead is a session without its messages, beside nothing and beside
// a mebibyte of metadata.
func BenchmarkHead(b *testing.B) {
	for _, size := range []int{0, 1 << 20} {
		s := conversation(b, 1)
		var err error
		for i := range size >> 16 {
			value := json.RawMessage(`"` + strings.Repeat("x", 1<<16-2) + `"`)
			if s, err = s.With(noon, session.MetadataWritten{Key: fmt.Sprintf("k%d", i), Value: value}); err != nil {
				b.Fatal(err)
			}
		}
		s = session.Seal(s, noon)
		raw, err := session.EncodeHead(s)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("encode/state=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := session.EncodeHead(s); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("decode/state=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := session.DecodeHead(raw, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHeader is what a listing reads of each session.
func BenchmarkHeader(b *testing.B) {
	info := conversation(b, 1).Info()
	raw, err := info.MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := info.MarshalJSON(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var i session.Info
			if err := i.UnmarshalJSON(raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}
