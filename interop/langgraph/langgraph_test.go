package langgraph_test

import (
	"database/sql"
	"encoding/binary"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/interop/foreign"
	"github.com/holdfast-dev/holdfast/interop/langgraph"
	"github.com/holdfast-dev/holdfast/session"
)

// object is an object of a Python class, as the serializer packs it.
type object struct {
	module, class string
	fields        map[string]any
}

// pack writes MessagePack, with sizes of four bytes where a value has one.
func pack(v any) []byte {
	sized := func(code byte, n int, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{code}, uint32(n)), rest...)
	}
	switch v := v.(type) {
	case nil:
		return []byte{0xc0}
	case bool:
		if v {
			return []byte{0xc3}
		}
		return []byte{0xc2}
	case int:
		return binary.BigEndian.AppendUint64([]byte{0xd3}, uint64(v))
	case string:
		if len(v) < 32 {
			return append([]byte{0xa0 | byte(len(v))}, v...)
		}
		return sized(0xdb, len(v), []byte(v)...)
	case []any:
		b := sized(0xdd, len(v))
		for _, item := range v {
			b = append(b, pack(item)...)
		}
		return b
	case map[string]any:
		b := sized(0xdf, len(v))
		for key, item := range v {
			b = append(append(b, pack(key)...), pack(item)...)
		}
		return b
	case object:
		inner := pack([]any{v.module, v.class, v.fields, "model_validate_json"})
		return append(sized(0xc9, len(inner), 5), inner...)
	}
	panic("no such value")
}

func pythonMessage(class, kind string, fields map[string]any) any {
	fields["type"] = kind
	return object{"langchain_core.messages." + kind, class, fields}
}

func scriptMessage(class, _ string, fields map[string]any) any {
	return map[string]any{"lc": 1, "type": "constructor", "id": []any{"langchain_core", "messages", class}, "kwargs": fields}
}

// state is a checkpoint with messages.
func state(build func(class, kind string, fields map[string]any) any, at string, messages int) map[string]any {
	all := []any{
		build("HumanMessage", "human", map[string]any{"id": "h1", "content": "weather?", "name": nil}),
		build("AIMessage", "ai", map[string]any{"id": "a1", "content": []any{map[string]any{"type": "text", "text": "I ask"}, map[string]any{"type": "tool_use", "id": "c1"}},
			"tool_calls":        []any{map[string]any{"id": "c1", "name": "get_weather", "args": map[string]any{"city": "Bern", "days": -3}, "type": "tool_call"}},
			"response_metadata": map[string]any{"model_name": "gpt-x", "model_provider": "openai", "api_key": "abcdefghijkl0123"}}),
		build("ToolMessage", "tool", map[string]any{"id": "t1", "content": "sunny abcdefghijkl0123", "tool_call_id": "c1", "status": "error"}),
		build("AIMessage", "ai", map[string]any{"id": "a2", "content": "sun", "tool_calls": []any{}}),
	}
	values := map[string]any{"messages": all[:messages], "counter": 7, "__start__": true, "branch:to:agent": nil}
	return map[string]any{"v": 4, "id": at, "ts": at, "channel_values": values}
}

// newFile makes a file with two checkpoints of a thread.
func newFile(t *testing.T, form string, checkpoints ...[]byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "checkpoints.db")
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		"CREATE TABLE checkpoints (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT, type TEXT, checkpoint BLOB, metadata BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id))",
		"CREATE TABLE writes (thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL, idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, value BLOB, PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx))",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for i, data := range checkpoints {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO checkpoints (thread_id, checkpoint_id, type, checkpoint) VALUES ('trip', ?, ?, ?)", i, form, data); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func read(t *testing.T, file string) ([]foreign.Conversation, error) {
	t.Helper()
	d, err := foreign.OpenSQLite(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if is, err := langgraph.Detect(t.Context(), d); err != nil || !is {
		t.Fatalf("it is not detected: %v", err)
	}
	return langgraph.Read(t.Context(), d)
}

func TestRead(t *testing.T) {
	t.Parallel()
	asJSON := func(v any) []byte {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	const early, late = "2026-01-02T10:00:00.000001+00:00", "2026-01-02T10:05:00+00:00"
	for form, file := range map[string]string{
		"msgpack": newFile(t, "msgpack", pack(state(pythonMessage, early, 1)), pack(state(pythonMessage, late, 4))),
		"json":    newFile(t, "json", asJSON(state(scriptMessage, early, 1)), asJSON(state(scriptMessage, late, 4))),
	} {
		all, err := read(t, file)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %d %v", form, len(all), err)
		}
		s, report, err := all[0].Session(foreign.Options{})
		if err != nil {
			t.Fatal(form, err)
		}
		var said []string
		for _, m := range s.Messages() {
			said = append(said, m.ID+" "+m.Content.Text())
		}
		if want := []string{"h1 weather?", "a1 I ask", "t1 ", "a2 sun"}; !slices.Equal(said, want) {
			t.Errorf("%s: said %q", form, said)
		}
		var args struct {
			City string
			Days int
		}
		if err := json.Unmarshal(s.Message(1).ToolCalls[0].Arguments, &args); err != nil || args.City != "Bern" || args.Days != -3 {
			t.Errorf("%s: arguments %+v %v", form, args, err)
		}
		if r := s.Message(2).ToolResult; r.Content != "sunny [secret:api_key]" || !r.IsError || r.ToolName != "get_weather" {
			t.Errorf("%s: %+v", form, r)
		}
		if s.ID() != "trip" || s.Definition().Model != "openai/gpt-x" || s.Info().CreatedAt.Format("15:04") != "10:00" {
			t.Errorf("%s: %+v", form, s.Info())
		}
		if !slices.Equal(report.Dropped, []string{"channel_values.counter"}) || !slices.Equal(report.Notes, []string{"texts with credentials, which are masked: 2"}) {
			t.Errorf("%s: %+v", form, report)
		}
	}
}

// texts is a checkpoint of a person's messages, whose ids are their texts.
func texts(t *testing.T, said ...string) []byte {
	t.Helper()
	messages := []any{}
	for _, text := range said {
		messages = append(messages, scriptMessage("HumanMessage", "", map[string]any{"id": text, "content": text}))
	}
	data, err := json.Marshal(map[string]any{"ts": "2026-01-02T10:00:00Z", "channel_values": map[string]any{"messages": messages}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRead_history(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		states [][]byte
		want   []string // of each session: its id, what is hidden, what a model is shown
	}{
		"it only grows":              {[][]byte{texts(t), texts(t, "a"), texts(t, "a", "b")}, []string{"trip | a b"}},
		"the oldest are removed":     {[][]byte{texts(t, "a", "b"), texts(t, "b", "c"), texts(t, "c", "d")}, []string{"trip a b | c d"}},
		"a summary in their place":   {[][]byte{texts(t, "a", "b", "c"), texts(t, "sum", "c", "d")}, []string{"trip a b | sum c d"}},
		"all are removed":            {[][]byte{texts(t, "a", "b"), texts(t), texts(t, "c")}, []string{"trip a b | c"}},
		"the last state is empty":    {[][]byte{texts(t, "a", "b"), texts(t)}, []string{"trip | a b"}},
		"back and on in another way": {[][]byte{texts(t, "a", "b", "c"), texts(t, "a"), texts(t, "a", "d")}, []string{"trip | a d", "trip-0 | a b c"}},
		"back behind a removal":      {[][]byte{texts(t, "a", "b"), texts(t, "b", "c", "d"), texts(t, "b", "c")}, []string{"trip a | b c", "trip-1 a | b c d"}},
		"two branches by turns": {
			[][]byte{texts(t, "a", "b"), texts(t, "a", "x"), texts(t, "a", "b", "c"), texts(t, "a", "x", "y")},
			[]string{"trip | a x y", "trip-2 | a b c"},
		},
	} {
		all, err := read(t, newFile(t, "json", test.states...))
		if err != nil {
			t.Fatal(name, err)
		}
		var got []string
		for _, c := range all {
			s, _, err := c.Session(foreign.Options{})
			if err != nil {
				t.Fatal(name, err)
			}
			line := s.ID()
			hidden := s.Len() - len(s.WindowMessages())
			for i, m := range s.Messages() {
				if i == hidden {
					line += " |"
				}
				line += " " + m.Content.Text()
			}
			got = append(got, line)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestRead_refuses(t *testing.T) {
	t.Parallel()
	whole := pack(state(pythonMessage, "2026-01-02T10:00:00Z", 4))
	deep := []byte(strings.Repeat("\x91", 100_000))
	for name, file := range map[string]string{
		"cut off":      newFile(t, "msgpack", whole[:len(whole)/2]),
		"more behind":  newFile(t, "msgpack", append(slices.Clone(whole), 1)),
		"nested":       newFile(t, "msgpack", deep),
		"a huge size":  newFile(t, "msgpack", []byte{0xdb, 0xff, 0xff, 0xff, 0xff, 'a'}),
		"unknown code": newFile(t, "msgpack", []byte{0xc1}),
		"no state":     newFile(t, "msgpack", pack(map[string]any{"v": 1})),
		"pickle":       newFile(t, "pickle", whole),
		"no JSON":      newFile(t, "json", []byte("{")),
	} {
		if all, err := read(t, file); !errors.Is(err, session.ErrCorrupt) || !strings.Contains(err.Error(), "trip") {
			t.Errorf("%s: %v %v", name, all, err)
		}
	}
}
