package postgres

import (
	"bytes"

	"github.com/holdfast-dev/holdfast/session"
)

// A log row keeps its change as the JSON of the record, but for what a message
// repeats of it: number and time.
//
//	{"seq":7,"at":"…","kind":"message_added","data":{"message":{"id":"a","seq":7,"createdAt":"…","role":"user",…}}}
//	{"seq":7,"at":"…","kind":"message_added","data":{"id":"a","role":"user",…}}

const (
	wholeMessage = `,"kind":"` + messageAdded + `","data":{"message":{`
	shortMessage = `,"kind":"` + messageAdded + `","data":{"id":`
)

// encodeBody is a record as a row keeps it.
func encodeBody(r session.Record) ([]byte, error) {
	raw, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	begin, message, found := cut(raw, wholeMessage)
	if !found {
		return raw, nil
	}
	// Before the stamp comes the id alone, whose quotes are escaped: it is the
	// first that looks like it.
	id, rest, found := bytes.Cut(message, stampOf(begin))
	if !found { // its time is its own
		return raw, nil
	}
	body := raw[:len(begin)]
	body = append(body, shortMessage[:len(shortMessage)-len(`"id":`)]...)
	body = append(body, id...)
	return append(body, rest[:len(rest)-1]...), nil // one object less is closed
}

// cut cuts a record where its kind and data begin like this. What looks like it
// may be in the data as well.
func cut(record []byte, like string) (begin, rest []byte, found bool) {
	at := bytes.Index(record, []byte(`,"kind":`))
	if at < 0 || !bytes.HasPrefix(record[at:], []byte(like)) {
		return nil, nil, false
	}
	return record[:at], record[at+len(like):], true
}

// stampOf is the number and the time of a message whose record begins so.
func stampOf(begin []byte) []byte {
	seq, at, _ := bytes.Cut(bytes.TrimPrefix(begin, []byte("{")), []byte(`,"at":`))
	stamp := append([]byte{}, seq...)
	stamp = append(stamp, `,"createdAt":`...)
	stamp = append(stamp, at...)
	return append(stamp, ',')
}

// decodeBody is the record that a row keeps.
func decodeBody(body []byte) (session.Record, error) {
	if begin, message, short := cut(body, shortMessage); short {
		whole := make([]byte, 0, len(body)+96)
		whole = append(whole, begin...)
		whole = append(whole, wholeMessage...)
		whole = append(whole, stampOf(begin)...)
		whole = append(whole, `"id":`...)
		whole = append(whole, message...)
		whole = append(whole, '}')
		body = whole
	}
	var r session.Record
	err := r.UnmarshalJSON(body)
	return r, err
}
