package postgres

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/property"
	"github.com/holdfast-dev/holdfast/session"
)

// What a row keeps is the record, shorter where a message repeats it.
func TestBody_isTheRecord(t *testing.T) {
	t.Parallel()
	property.Check(t, func(t *property.T) {
		text := property.SampledFrom([]string{"", "hello", `"id":`, `","seq":7,"createdAt":"2026-01-01T00:00:00Z",`, shortMessage, wholeMessage, "{}", "\\", "\u0000é"})
		at := session.Instant(time.Unix(property.Int64Range(0, 1<<33).Draw(t, "at"), property.Int64Range(0, 999).Draw(t, "micros")*1000))
		created := at
		if property.Bool().Draw(t, "a time of its own") {
			created = session.Instant(at.Add(time.Second))
		}
		seq := property.Int64Range(1, 1<<40).Draw(t, "seq")
		content := session.Text(text.Draw(t, "text") + text.Draw(t, "more text"))
		changes := []session.Change{
			session.MessageAdded{Message: session.Message{ID: "m" + text.Draw(t, "id"), Seq: seq, CreatedAt: created, Role: session.RoleUser, Content: content}},
			session.MetadataWritten{Key: "k", Value: []byte(`{"a":1` + shortMessage + `"x"}}`)},
			session.MetadataWritten{Key: "k", Value: []byte(`{"a":1` + wholeMessage + `"id":"x"}}}`)},
			session.NameChanged{Name: text.Draw(t, "name")},
		}
		r := session.Record{Seq: seq, At: at, Change: property.SampledFrom(changes).Draw(t, "change")}
		raw, err := r.MarshalJSON()
		if err != nil {
			t.Skip("no such record:", err)
		}
		var want session.Record
		if err := want.UnmarshalJSON(raw); err != nil {
			t.Skip("no such record:", err)
		}
		body, _, err := encodeBody(7, r, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeBody(body)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\nis kept as %s\nand read as %+v, %v", raw, body, got, err)
		}
		_, message := r.Change.(session.MessageAdded)
		if short := len(body)-sumLength < len(raw); short != (message && created.Equal(at)) {
			t.Errorf("%s is kept as %s", raw, body)
		}
	})
}
