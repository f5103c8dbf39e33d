package session_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

const (
	idOne   = "0b9f8f0e-1111-4a4a-9a9a-000000000001"
	idTwo   = "0b9f8f0e-2222-4a4a-9a9a-000000000002"
	idThree = "0b9f8f0e-3333-4a4a-9a9a-000000000003"
)

func newID() string { return idThree }

func decodeRequest(t *testing.T, text string) session.Request {
	t.Helper()
	r, err := session.DecodeRequest([]byte(text), newID, noon)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

func encoded(t *testing.T, r session.Request) []byte {
	t.Helper()
	raw, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRequest_rootsItself(t *testing.T) {
	r := decodeRequest(t, `{"sessionId":"s","payload":{"text":"hi"},"requestId":null}`)
	if r.ID() != idThree || r.RootID() != idThree || r.ParentID() != "" || !r.CreatedAt().Equal(noon) || len(r.Metadata()) != 0 {
		t.Errorf("%+v", r)
	}
	raw := encoded(t, r)
	want := `{"requestId":"` + idThree + `","sessionId":"s","rootRequestId":"` + idThree + `","parentRequestId":null,"payload":{"text":"hi"},"metadata":{},"createdAt":"` + noon.Format(time.RFC3339Nano) + `"}`
	if string(raw) != want {
		t.Errorf("wrote %s\n want %s", raw, want)
	}
}

func TestRequest_readsBothSpellingsButNotAtOnce(t *testing.T) {
	camel := decodeRequest(t, `{"requestId":"`+idOne+`","sessionId":"s","rootRequestId":"`+idTwo+`","parentRequestId":"`+idTwo+`","payload":{},"createdAt":"2026-01-02T03:04:05Z"}`)
	snake := decodeRequest(t, `{"request_id":"`+strings.ToUpper(idOne)+`","session_id":"s","root_request_id":"`+idTwo+`","parent_request_id":"`+idTwo+`","payload":{},"created_at":"2026-01-02T03:04:05Z"}`)
	if a, b := encoded(t, camel), encoded(t, snake); !bytes.Equal(a, b) {
		t.Errorf("%s\n%s", a, b)
	}
	_, err := session.DecodeRequest([]byte(`{"sessionId":"s","session_id":"s","payload":{}}`), newID, noon)
	wantField(t, err, "sessionId")
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var wrong *session.InvalidError
	if !errors.As(err, &wrong) || !strings.Contains(wrong.Field, field) {
		t.Errorf("%v, want an error about %s", err, field)
	}
}

func TestRequest_badInputIsRefusedByName(t *testing.T) {
	for text, field := range map[string]string{
		`null`:                               "request",
		`[]`:                                 "request",
		`{"payload":{}}`:                     "sessionId",
		`{"sessionId":"s"}`:                  "payload",
		`{"sessionId":"s","payload":null}`:   "payload",
		`{"sessionId":"s","payload":[1]}`:    "payload",
		`{"sessionId":"s","payload":"text"}`: "payload",
		`{"sessionId":"s","payload":{},"metadata":3}`:            "metadata",
		`{"sessionId":"s","payload":{},"requestId":"7"}`:         "requestId",
		`{"sessionId":"s","payload":{},"rootRequestId":"x"}`:     "rootRequestId",
		`{"sessionId":"s","payload":{},"extra":1}`:               "extra",
		`{"sessionId":"../s","payload":{}}`:                      "sessionId",
		`{"sessionId":"s","payload":{},"payload":{}}`:            "payload",
		`{"sessionId":"s","payload":{},"createdAt":"yesterday"}`: "request",
	} {
		_, err := session.DecodeRequest([]byte(text), newID, noon)
		var wrong *session.InvalidError
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Field, field) {
			t.Errorf("%s: %v, want an error about %s", text, err, field)
		}
	}
	_, err := session.DecodeRequest([]byte(`{"sessionId":"s","payload":{},"parentRequestId":"`+idOne+`"}`), newID, noon)
	if !errors.Is(err, session.ErrBrokenTrace) {
		t.Errorf("a parent without a root: %v", err)
	}
	if r := decodeRequest(t, `{"sessionId":"s","payload":{},"rootRequestId":"`+idOne+`"}`); r.RootID() != idOne || r.ParentID() != "" {
		t.Errorf("a root without a parent is legal: %+v", r)
	}
}

func TestRequest_childrenKeepTheTrace(t *testing.T) {
	root := decodeRequest(t, `{"requestId":"`+idOne+`","sessionId":"s","payload":{"text":"hi"},"metadata":{"from":"web","n":[1]}}`)
	child, err := root.Child(idTwo, session.Values{"text": json.RawMessage(`"more"`)}, nil, noon)
	if err != nil {
		t.Fatal(err)
	}
	if child.RootID() != idOne || child.ParentID() != idOne || child.SessionID() != "s" || child.Metadata().String("from") != "web" {
		t.Errorf("%+v", child)
	}
	other, err := child.Child(idThree, session.Values{}, session.Values{"a": json.RawMessage("1")}, noon)
	if err != nil || other.ParentID() != idTwo || other.RootID() != idOne || len(other.Metadata()) != 1 {
		t.Errorf("%+v, %v", other, err)
	}
}

func TestRequest_isImmutable(t *testing.T) {
	payload := session.Values{"text": json.RawMessage(`"hi"`)}
	r, err := session.NewRequest(session.RequestFields{ID: idOne, SessionID: "s", Payload: payload, Metadata: session.Values{"k": json.RawMessage(`[1]`)}, CreatedAt: noon})
	if err != nil {
		t.Fatal(err)
	}
	before := encoded(t, r)
	payload["text"][1] = 'X'
	payload["more"] = nil
	r.Payload()["text"][1] = 'Y'
	r.Metadata()["k"][1] = '9'
	if after := encoded(t, r); !bytes.Equal(before, after) {
		t.Errorf("%s became %s", before, after)
	}
}
