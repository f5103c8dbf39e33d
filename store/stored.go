package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// KeepKeys is how long a store remembers an idempotency key at least.
const KeepKeys = 24 * time.Hour

// EncodeHeader returns a header as stores keep it: the beginning of a
// session's document, so that it names its format. session.DecodeHeader reads
// it.
func EncodeHeader(i session.Info) ([]byte, error) {
	raw, err := i.MarshalJSON()
	return fmt.Appendf(nil, `{"format":%q,"formatVersion":%d,"header":%s}`, session.Format, session.FormatVersion, raw), err
}

// Unreadable returns the error for stored data that cannot be used: an
// ErrNewerFormat as it is, anything else as CorruptError. Nil stays nil.
func Unreadable(id, path string, err error) error {
	if err == nil || errors.Is(err, session.ErrNewerFormat) {
		return err
	}
	return &session.CorruptError{ID: id, Path: path, Reason: err.Error()}
}

// ShownSpans returns the spans of a log that hold the messages of a window, or
// of the whole transcript, in order: first the single messages that the window
// keeps, then what lies in the window. A To of 0 is the end of the log.
func ShownSpans(transcript []session.Span, w session.Window, whole bool) []session.Span {
	from := w.FromSeq
	if whole {
		from = 0
	}
	var shown []session.Span
	for _, seq := range slices.Compact(slices.Sorted(slices.Values(w.Keep))) {
		if seq < from && session.Holds(transcript, seq) {
			shown = append(shown, session.Span{From: seq, To: seq})
		}
	}
	for _, span := range transcript {
		if span.From = max(span.From, from); span.To == 0 || span.From <= span.To {
			shown = append(shown, span)
		}
	}
	return shown
}
