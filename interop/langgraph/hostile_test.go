package langgraph

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/session"
)

func human(id, text string) message {
	m := message{Kind: "human", ID: id, Content: fmt.Appendf(nil, "%q", text)}
	m.digest, _ = digestOf(m)
	return m
}

// Threads of thousands of checkpoints are read in a time that grows with them
// alone, and of thousands of branches the last become sessions.
func TestThread_manyCheckpoints(t *testing.T) {
	t.Parallel()
	long := &thread{id: "long"}
	for i := range 20_000 {
		long.add(checkpoint{id: fmt.Sprint(i), messages: []message{human(fmt.Sprint(i), "x")}})
	}
	all := long.conversations()
	if len(all) != 1 || len(all[0].Messages) != 20_000 || all[0].From != 19_999 {
		t.Errorf("%d conversations, the first with %d messages from %d", len(all), len(all[0].Messages), all[0].From)
	}
	wide := &thread{id: "wide"}
	for i := range 2_000 {
		wide.add(checkpoint{id: fmt.Sprint(i), messages: []message{human("root", "x"), human(fmt.Sprint(i), "y")}})
	}
	all = wide.conversations()
	if notes := strings.Join(all[0].Report.Notes, "; "); len(all) != maxBranches || !strings.Contains(notes, "older branches that were given up: 1900") {
		t.Errorf("%d conversations, %s", len(all), notes)
	}
	if last := all[0].Messages[1].ID; last != "1999" || all[1].ID != "wide-1998" {
		t.Errorf("the thread ends with %s, its last branch is %s", last, all[1].ID)
	}
}

// Numbers keep their digits; what JSON has no number for is nothing.
func TestDecode_numbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		packed string
		want   any
	}{
		{"\xcf\x00\x20\x00\x00\x00\x00\x00\x01", uint64(9007199254740993)}, {"\xd3\xff\xdf\xff\xff\xff\xff\xff\xff", int64(-9007199254740993)},
		{"\x7f", uint64(127)}, {"\xff", int64(-1)}, {"\xd0\x80", int64(-128)}, {"\xca\x3f\x00\x00\x00", 0.5},
		{"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01", nil}, {"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00", nil}, {"\xca\xff\x80\x00\x00", nil},
	} {
		if got, err := decode("msgpack", []byte(c.packed)); err != nil || got != c.want {
			t.Errorf("%x is %v (%T), %v", c.packed, got, got, err)
		}
	}
	state := `{"ts":"2026-01-02T10:00:00Z","channel_values":{"messages":[{"type":"human","content":"x"},{"type":"ai","content":"","tool_calls":[{"id":"c","name":"f","args":{"id":9007199254740993}}]}]}}`
	v, err := decode("json", []byte(state))
	if err != nil {
		t.Fatal(err)
	}
	c, err := readCheckpoint(v)
	if err != nil || string(c.messages[1].ToolCalls[0].Args) != `{"id":9007199254740993}` {
		t.Errorf("%+v, %v", c.messages, err)
	}
}

// Messages of a type that nobody knows do not hide the others.
func TestReadMessages_unknownTypes(t *testing.T) {
	t.Parallel()
	list := []any{map[string]any{"type": "human", "content": "x"}, map[string]any{"type": "wizard", "content": math.NaN()}}
	messages, err := readMessages(list)
	if err != nil || len(messages) != 2 || messages[1].Kind != "wizard" {
		t.Errorf("%+v, %v", messages, err)
	}
	if messages, err := readMessages(list[1:]); err != nil || messages != nil {
		t.Errorf("a channel of others is taken for messages: %+v, %v", messages, err)
	}
}

// Whatever a checkpoint has, it is refused or becomes a valid conversation.
func FuzzDecode(f *testing.F) {
	f.Add("json", []byte(`{"ts":"2026-01-02T10:00:00Z","channel_values":{"messages":[{"type":"human","content":["x",{"type":"hologram"}]},{"type":"tool","tool_call_id":"none","content":"r"}]}}`))
	f.Add("msgpack", []byte("\x81\xaechannel_values\x81\xa8messages\x91\x83\xa4type\xa5human\xa2id\xa1h\xa7content\xa2hi"))
	f.Add("msgpack", []byte("\xdd\xff\xff\xff\xff\x90\x90"))
	f.Add("msgpack", []byte(strings.Repeat("\x91", 300)))
	f.Add("msgpack", []byte("\xc7\x05\x01\x93\x01\x02\x81\xa1"))
	f.Fuzz(func(t *testing.T, form string, data []byte) {
		v, err := decode(form, data)
		if err != nil {
			return
		}
		var secrets foreign.Secrets
		secrets.Find(v)
		c, err := readCheckpoint(secrets.Mask(v))
		if err != nil {
			return
		}
		th := &thread{id: "t"}
		th.add(c)
		for _, c := range th.conversations() {
			s, _, err := c.Session(foreign.Options{})
			if err == nil {
				err = session.ValidTranscript(s.Messages())
				if err != nil {
					t.Fatalf("an invalid transcript: %v", err)
				}
			}
			if err != nil && !errors.Is(err, session.ErrCorrupt) {
				t.Errorf("%v", err)
			}
		}
	})
}
