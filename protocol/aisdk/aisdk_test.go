package aisdk_test

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/protocol/protocoltest"
)

func TestStream(t *testing.T) {
	t.Parallel()
	s := protocoltest.Start(t, &protocoltest.FailingModel{}, nil)
	own := s.Key("default", apikey.Read, apikey.Write)
	message := func(chat, id string) string {
		return `{"id":"` + chat + `","trigger":"submit-message","messages":[{"id":"` + id + `","role":"user","parts":[{"type":"text","text":"go"}]}]}`
	}

	// What was streamed of an attempt that failed is taken back where the client
	// knows how; older ones get its end, and no chunk that they refuse.
	for _, version := range []string{"5", "7"} {
		status, body := s.Do("POST", "/aisdk/helper?ai="+version, own, message("chat-"+version, "m1"))
		if status != 200 || !strings.Contains(body, `"delta":"valid words"`) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Fatalf("%d %s", status, body)
		}
		if version == "5" && strings.Contains(body, "reset-step") {
			t.Errorf("version 5 gets a chunk that it refuses: %s", body)
		}
		if starts, ends := strings.Count(body, "text-start"), strings.Count(body, "text-end"); starts != ends {
			t.Errorf("version %s: %d texts begin and %d end", version, starts, ends)
		}
	}
	// The same message again is not sent again: its turn is shown.
	if status, body := s.Do("POST", "/aisdk/helper", own, message("chat-5", "m1")); status != 200 || strings.Contains(body, "void") || strings.Count(body, "valid words") != 1 {
		t.Errorf("the same message again: %d %s", status, body)
	}
	reader, other := s.Key("default", apikey.Read), s.Key("other", apikey.Read, apikey.Write)
	for _, c := range []struct {
		method, path, key, body string
		status                  int
	}{
		{"POST", "/aisdk/helper", "wrong", message("x", "m"), 401},
		{"POST", "/aisdk/helper", reader, message("x", "m"), 403},
		{"POST", "/aisdk/nobody", own, message("x", "m"), 404},
		{"GET", "/aisdk/helper/chat-5/stream", other, "", 404},
		{"GET", "/aisdk/helper/chat-5/stream", own, "", 204},
		{"POST", "/aisdk/helper", own, `{"id":"x","messages":[],"temperature":1}`, 422},
		{"POST", "/aisdk/helper?ai=8", own, message("x", "m"), 422},
	} {
		if status, body := s.Do(c.method, c.path, c.key, c.body); status != c.status || strings.Contains(body, "valid words") || strings.HasPrefix(body, "{") {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, body)
		}
	}
}
