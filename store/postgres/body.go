package postgres

import (
	"bytes"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// A log row holds its change as the JSON of the record, after its checksum. A
// message is stored without its number and time where the record has the same:
//
//	{"seq":7,"at":"…","kind":"message_added","data":{"message":{"id":"a","seq":7,"createdAt":"…","role":"user",…}}}
//	{"seq":7,"at":"…","kind":"message_added","data":{"id":"a","role":"user",…}}

const (
	wholeMessage = `,"kind":"` + messageAdded + `","data":{"message":{`
	shortMessage = `,"kind":"` + messageAdded + `","data":{"id":`
)

// encodeBody encodes a record for a log row that follows another.
func encodeBody(before store.Sum, r session.Record, version int64) ([]byte, store.Sum, error) {
	raw, err := encodeRecord(r)
	if err != nil {
		return nil, 0, err
	}
	sum := before.Next(store.Logged{Seq: r.Seq, Version: version, Kind: r.Change.Kind(), Body: raw})
	return append(appendSum(make([]byte, 0, sumLength+len(raw)), int64(sum)), raw...), sum, nil
}

func encodeRecord(r session.Record) ([]byte, error) {
	raw, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	begin, message, found := cut(raw, wholeMessage)
	if !found {
		return raw, nil
	}
	// Only the id comes before the stamp, and its quotes are escaped, so the first
	// match is the stamp.
	id, rest, found := bytes.Cut(message, stampOf(begin))
	if !found { // its time is its own
		return raw, nil
	}
	body := raw[:len(begin)]
	body = append(body, shortMessage[:len(shortMessage)-len(`"id":`)]...)
	body = append(body, id...)
	return append(body, rest[:len(rest)-1]...), nil // one object less is closed
}

// cut splits a record before its kind, if kind and data begin like this. The
// data may hold the same text again, so the first kind is the one compared.
func cut(record []byte, like string) (begin, rest []byte, found bool) {
	at := bytes.Index(record, []byte(`,"kind":`))
	if at < 0 || !bytes.HasPrefix(record[at:], []byte(like)) {
		return nil, nil, false
	}
	return record[:at], record[at+len(like):], true
}

// stampOf returns the number and time of a message, from its record's beginning.
func stampOf(begin []byte) []byte {
	seq, at, _ := bytes.Cut(bytes.TrimPrefix(begin, []byte("{")), []byte(`,"at":`))
	const created = `,"createdAt":`
	stamp := append(make([]byte, 0, len(begin)+len(created)+1), seq...)
	stamp = append(stamp, created...)
	stamp = append(stamp, at...)
	return append(stamp, ',')
}

// decodeBody checks and decodes the record of a log row.
func decodeBody(body []byte) (session.Record, error) {
	sum, body, err := cutSum(body)
	if err != nil {
		return session.Record{}, err
	}
	if store.Sum(sum).Check("", store.Logged{Body: body}) != nil {
		return session.Record{}, errOtherSum
	}
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
	err = r.UnmarshalJSON(body)
	return r, err
}
