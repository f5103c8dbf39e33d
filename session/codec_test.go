package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

func TestDecode_refusesByName(t *testing.T) {
	t.Parallel()
	good := string(document(t, sampleSession(t)))
	for name, tt := range map[string]struct{ old, new, field string }{
		"no JSON":               {good, "{", "document"},
		"not an object":         {good, "[]", "document"},
		"two values":            {good, good + good, "document"},
		"no format":             {`"format":"holdfast.session",`, ``, "format"},
		"another format":        {`"holdfast.session"`, `"holdfast.head"`, "format"},
		"format version 0":      {`"formatVersion":1`, `"formatVersion":0`, "formatVersion"},
		"unknown key":           {`"formatVersion":1`, `"formatVersion":1,"extra":1`, "document.extra"},
		"spans":                 {`"formatVersion":1`, `"formatVersion":1,"spans":[]`, "document.spans"},
		"header null":           {`"header":{`, `"header":null,"x":{`, "document.x"},
		"header key":            {`"depth":1`, `"depth":1,"deep":1`, "header.deep"},
		"header case":           {`"depth":1`, `"Depth":1`, "header.Depth"},
		"header twice":          {`"depth":1`, `"depth":1,"depth":2`, "header.depth"},
		"header type":           {`"depth":1`, `"depth":"1"`, "header.depth"},
		"header id":             {`"sessionId":"s-1"`, `"sessionId":"s/1"`, "id"},
		"header status":         {`"status":"active"`, `"status":"asleep"`, "status"},
		"header negative":       {`"depth":1`, `"depth":-1`, "header"},
		"header huge seq":       {`"seq":4,"agentName"`, `"seq":9223372036854775807,"agentName"`, "header"},
		"header seq overflow":   {`"seq":4,"agentName"`, `"seq":9223372036854775808,"agentName"`, "header.seq"},
		"definition key":        {`"label":"Weather"`, `"lable":"Weather"`, "definition.lable"},
		"definition name":       {`"name":"weather","label"`, `"name":"Weather","label"`, "definition.name"},
		"definition nested":     {`"maxSteps":5`, `"maxstep":5`, "definition.budget.maxstep"},
		"definition twice":      {`"team":"north"}},"state"`, `"team":"north","team":1}},"state"`, "definition.metadata.team"},
		"definition no list":    {`"tools":[]`, `"tools":"all"`, "definition.tools"},
		"definition no strings": {`"tools":[]`, `"tools":[1]`, "definition.tools"},
		"state key":             {`"executionCount":2`, `"executionCount":2,"x":1`, "state.x"},
		"state agent":           {`"agentId":"agent-1"`, `"agentId":""`, "agentId"},
		"state no traces":       {`"executionCount":2`, `"traceCount":-1,"executionCount":2`, "state.traceCount"},
		"state many traces":     {`"executionCount":2`, `"traceCount":1000000,"executionCount":2`, "state.traceCount"},
		"state negative":        {`"executionCount":2`, `"executionCount":-2`, "state"},
		"state partial":         {`"partial":false`, `"partial":true`, "state.partial"},
		"window negative":       {`"fromSeq":9`, `"fromSeq":-9`, "window.fromSeq"},
		"usage negative":        {`"input":12`, `"input":-12`, "window.summary.usage"},
		"cost":                  {`"cost":0.0015`, `"cost":1e99`, "cost"},
		"variable version":      {`"version":2,"createdAt"`, `"version":0,"createdAt"`, "variables.a/b"},
		"execution status":      {`"number":2,"status":"stopped"`, `"number":2,"status":"gone"`, "execution.status"},
		"step type":             {`"type":"tool_execution"`, `"type":"dance"`, "execution.steps.type"},
		"signal reason":         {`"reason":"steps_limit"`, `"reason":"bored"`, "signal.reason"},
		"message order":         {`"id":"m-2","seq":4`, `"id":"m-2","seq":3`, "state.messages"},
		"message role":          {`"role":"user"`, `"role":"User"`, "message.role"},
		"message id":            {`"id":"m-2"`, `"id":""`, "message.id"},
		"message key":           {`"id":"m-2"`, `"id":"m-2","ID":"x"`, "state.messages.ID"},
		"message part key":      {`"signature":"c2ln"`, `"signed":"c2ln"`, "content.signed"},
		"message call":          {`"arguments":{"city":"Oslo"}`, `"arguments":["Oslo"]`, "message.toolCalls.arguments"},
		"too many messages":     {`"messageCount":3`, `"messageCount":2`, "state.messages"},
		"too few messages":      {`"messageCount":3`, `"messageCount":4`, "state.partial"},
		"bad UTF-8":             {"A coat", "A \xff coat", "document"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(good, tt.old) {
				t.Fatalf("%s is not in the sample", tt.old)
			}
			s, err := session.Decode([]byte(strings.Replace(good, tt.old, tt.new, 1)))
			refused(t, err, tt.field)
			if !s.IsZero() {
				t.Error("a session was returned all the same")
			}
		})
	}
}

func TestDecode_saysThatADocumentWasCutOff(t *testing.T) {
	t.Parallel()
	good := document(t, sampleSession(t))
	for n := 0; n < len(good)-1; n += 3 {
		if _, err := session.Decode(good[:n]); err == nil || !strings.Contains(err.Error(), "it ends too early") {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := session.Decode(append(good[:len(good)-1:len(good)-1], ']')); err == nil || strings.Contains(err.Error(), "it ends too early") {
		t.Errorf("a wrong end: %v", err)
	}
}

func TestDecode_newerFormatIsRefusedAsSuch(t *testing.T) {
	t.Parallel()
	raw := bytes.Replace(document(t, sampleSession(t)), []byte(`"formatVersion":1`), []byte(`"formatVersion":2,"novelty":{}`), 1)
	if _, err := session.Decode(raw); !errors.Is(err, session.ErrNewerFormat) {
		t.Errorf("Decode gave %v", err)
	}
	raw = bytes.Replace(raw, []byte(`,"novelty":{}`), nil, 1)
	if _, err := session.DecodeHeader(raw); !errors.Is(err, session.ErrNewerFormat) {
		t.Errorf("DecodeHeader gave %v", err)
	}
}

func TestDecodeHeader_readsNoFurther(t *testing.T) {
	t.Parallel()
	s := sampleSession(t)
	raw := document(t, s)
	beginning, _, _ := bytes.Cut(raw, []byte(`"definition"`))
	info, err := session.DecodeHeader(append(beginning, "\xff broken"...))
	if err != nil || info.ID != s.ID() || info.MessageCount != 3 {
		t.Errorf("%+v, %v", info, err)
	}
	for name, bad := range map[string]string{
		"empty": "", "list": "[]", "no header": `{"format":"holdfast.session","formatVersion":1}`,
		"no format": `{"header":{}}`, "late header": `{"format":"holdfast.session","definition":{},"header":{}}`,
		"null": `{"format":"holdfast.session","formatVersion":1,"header":null}`, "no version": `{"format":"holdfast.session","header":{}}`,
		"cut": `{"format":"holdfast.session","formatVersion":1,"header":{"sessionId":"s`,
	} {
		if _, err := session.DecodeHeader([]byte(bad)); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s gave %v", name, err)
		}
	}
}

func TestDecodeHead_refusesMessagesThatAreNotItsOwn(t *testing.T) {
	t.Parallel()
	s := sampleSession(t)
	head, err := session.EncodeHead(s)
	if err != nil {
		t.Fatal(err)
	}
	messages := s.Messages()
	swapped := []session.Message{messages[1], messages[0]}
	late := s.Messages()
	late[2].Seq = 99
	for name, bad := range map[string][]session.Message{"swapped": swapped, "twice": {messages[0], messages[0]}, "too many": append(late, messages[0]), "late": late} {
		_, err := session.DecodeHead(head, bad)
		if err == nil {
			t.Errorf("%s messages were taken", name)
			continue
		}
		refused(t, err, "state.messages")
		same, err := session.AttachMessages(s, bad)
		refused(t, err, "state.messages")
		sameMessages(t, same.Messages(), messages)
	}
	bare, err := session.DecodeHead(head, nil)
	if err != nil {
		t.Fatal(err)
	}
	held, err := session.AttachMessages(bare, messages)
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, "a head that was given its messages", document(t, held), document(t, s))
	if bare.Len() != 0 {
		t.Error("the head without messages has some")
	}
	for old, alt := range map[string]string{`"spans":[{"from":1}]`: `"spans":[]`, `[{"from":1}]`: `[{"from":1},{"from":1}]`, `{"from":1}`: `{"from":0}`} {
		if !bytes.Contains(head, []byte(old)) {
			t.Fatalf("%s is not in %s", old, head)
		}
		_, err := session.DecodeHead(bytes.Replace(head, []byte(old), []byte(alt), 1), nil)
		refused(t, err, "spans")
	}
}

// A document may be of a session with unsaved changes; its numbers go on after
// the messages it shows, so that a second cycle does not trip over the first.
func TestDocument_ofUnsavedChangesCanGoOn(t *testing.T) {
	t.Parallel()
	s := say(t, say(t, newSession(t), "m-1"), "m-2")
	for range 3 {
		decoded, err := session.Decode(document(t, s))
		if err != nil {
			t.Fatal(err)
		}
		s = say(t, decoded, "more")
	}
	if s.Len() != 5 {
		t.Errorf("%d messages, want 5", s.Len())
	}
}

func TestTools_nilAndEmptyStayApart(t *testing.T) {
	t.Parallel()
	for want, tools := range map[string][]string{`"tools":null`: nil, `"tools":[]`: {}, `"tools":["a","b"]`: {"a", "b", "a"}} {
		s, err := session.New(session.Identity{ID: "s-1", AgentID: "agent-1"}, session.Definition{Name: "agent", Tools: tools, ToolsDeny: tools}, session.Seed{}, noon)
		if err != nil {
			t.Fatal(err)
		}
		s = session.Seal(say(t, s, "m"), noon)
		fork, err := s.Fork("s-2", "agent-2", noon)
		if err != nil {
			t.Fatal(err)
		}
		rooted, err := session.Detach(fork)
		if err != nil {
			t.Fatal(err)
		}
		imported, err := s.Imported("s-3", "agent-3", "", session.SessionImported{Format: "test"}, noon)
		if err != nil {
			t.Fatal(err)
		}
		folded, err := session.Fold(throughJSON(t, session.Unsaved(rooted)))
		if err != nil {
			t.Fatal(err)
		}
		head, err := session.EncodeHead(s)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := session.DecodeHead(head, s.Messages())
		if err != nil {
			t.Fatal(err)
		}
		for name, s := range map[string]session.Session{"new": s, "fork": fork, "rooted": rooted, "imported": imported, "folded": folded, "loaded": loaded} {
			d := s.Definition()
			if (d.Tools == nil) != (tools == nil) || (d.Clone().ToolsDeny == nil) != (tools == nil) {
				t.Errorf("%s: tools %#v became %#v", name, tools, d.Tools)
			}
			if raw := document(t, s); !bytes.Contains(raw, []byte(want)) {
				t.Errorf("%s: %s is not in %s", name, want, raw)
			}
		}
	}
}

func TestRecord_refusesByName(t *testing.T) {
	t.Parallel()
	for raw, field := range map[string]string{
		`{"seq":0,"at":"2026-03-01T12:00:00Z","kind":"transcript_cleared","data":{}}`:                                              "record.seq",
		`{"seq":9007199254740992,"at":"2026-03-01T12:00:00Z","kind":"transcript_cleared","data":{}}`:                               "record.seq",
		`{"seq":1,"at":"noon","kind":"transcript_cleared","data":{}}`:                                                              "record",
		`{"seq":1,"at":"2026-03-01T12:00:00Z","kind":"transcript_cleared"}`:                                                        "record.data",
		`{"seq":1,"at":"2026-03-01T12:00:00Z","kind":"transcript_cleared","data":null}`:                                            "record.data",
		`{"seq":1,"at":"2026-03-01T12:00:00Z","kind":"transcript_cleared","data":{},"version":1}`:                                  "record",
		`{"Seq":1,"at":"2026-03-01T12:00:00Z","kind":"transcript_cleared","data":{}}`:                                              "record.Seq",
		`{"seq":1,"at":"2026-03-01T12:00:00Z","kind":"name_changed","data":{"Name":"x"}}`:                                          "name_changed.Name",
		`{"seq":1,"at":"2026-03-01T12:00:00Z","kind":"name_changed","data":{"name":"x","name":"y"}}`:                               "name_changed.name",
		`{"seq":1,"at":"2026-03-01T12:00:00Z","kind":"name_changed","data":{"name":7}}`:                                            "name_changed.name",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"message_added","data":{"message":{"id":"m","seq":1,"role":"user"}}}`:         "record.seq",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"tail_discarded","data":{"from":3,"to":2}}`:                                   "tail_discarded",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"tool_finished","data":{"stepId":"s","activeSeconds":-1}}`:                    "tool.activeSeconds",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"execution_started","data":{"executionId":"x","budget":{"maxSteps":-1}}}`:     "budget.maxSteps",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"model_changed","data":{"model":"","params":{"topP":3}}}`:                     "modelParams.topP",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"window_moved","data":{"strategy":"forget","to":1}}`:                          "strategy",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"step_finished","data":{"stepId":"s","type":"x"}}`:                            "type",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"session_forked","data":{"sessionId":"a","agentId":"b","parentId":"../up"}}`:  "parentId",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"inference_answered","data":{"stepId":"s","usage":{"input":-5}}}`:             "inference.usage",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"variable_stored","data":{"key":"../a","value":1}}`:                           "key",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"session_rewound","data":{"version":1,"seq":1,"spans":[{"from":5,"to":2}]}}`:  "spans",
		`{"seq":2,"at":"2026-03-01T12:00:00Z","kind":"response_format_changed","data":{"responseFormat":{"type":"","schema":{}}}}`: "responseFormat.type",
	} {
		refused(t, json.Unmarshal([]byte(raw), new(session.Record)), field)
	}
}

func TestLogEntry_roundTrip(t *testing.T) {
	t.Parallel()
	for _, e := range []session.LogEntry{
		{Record: session.Record{Seq: 3, At: noon, Change: session.NameChanged{Name: "x"}}, Version: 2},
		{Record: session.Record{Seq: 4, At: noon, Change: session.TranscriptCleared{}}, Discarded: true},
	} {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back session.LogEntry
		if err := json.Unmarshal(raw, &back); err != nil || back != e {
			t.Errorf("%s became %+v (%v), want %+v", raw, back, err, e)
		}
	}
}

func TestFold_refusesALogWithAHole(t *testing.T) {
	t.Parallel()
	s := say(t, say(t, newSession(t), "m-1"), "m-2")
	log := session.Unsaved(s)
	for name, bad := range map[string][]session.Record{
		"empty": nil, "no beginning": log[1:], "hole": {log[0], log[2]}, "twice": {log[0], log[0]}, "again": append(session.Unsaved(s), log[0]),
	} {
		if _, err := session.Fold(bad); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("a log that is %s gave %v", name, err)
		}
	}
}

func TestCost_isExact(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]session.Cost{
		"0": 0, "0.000001": 1, "-0.000001": -1, "1.5": 1_500_000, "10": 10_000_000, "9007199254.740993": 9007199254740993,
		"9223372036854.775807": math.MaxInt64, "-9223372036854.775808": math.MinInt64,
	} {
		raw, err := json.Marshal(c)
		if err != nil || string(raw) != want {
			t.Errorf("%d micro-dollars are %s (%v), want %s", int64(c), raw, err, want)
		}
		var back session.Cost
		if err := json.Unmarshal(raw, &back); err != nil || back != c {
			t.Errorf("%s was read as %d (%v)", raw, int64(back), err)
		}
	}
	for raw, want := range map[string]session.Cost{"1e-6": 1, "2.5E0": 2_500_000, "0.0000015": 2, "-0": 0} {
		var c session.Cost
		if err := json.Unmarshal([]byte(raw), &c); err != nil || c != want {
			t.Errorf("%s was read as %d (%v), want %d", raw, int64(c), err, int64(want))
		}
	}
	for _, bad := range []string{`"1"`, "1e13", "1e400", "9999999999999999", "true", "{}"} {
		if err := json.Unmarshal([]byte(bad), new(session.Cost)); err == nil {
			t.Errorf("%s was taken for a cost", bad)
		}
	}
}

func TestUsage_stopsAtTheLargestNumber(t *testing.T) {
	t.Parallel()
	u := session.Usage{Input: math.MaxInt64, Output: 1}
	if sum := u.Plus(u); sum.Input != math.MaxInt64 || sum.Output != 2 || u.Total() != math.MaxInt64 {
		t.Errorf("%+v", sum)
	}
}
