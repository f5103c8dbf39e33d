package server

import (
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// The record of an answer may come from the store before the last of its pieces
// comes from the node that works. Nothing of an answer follows its record.
func TestPeer_piecesThatComeAfterTheirRecordAreNotSent(t *testing.T) {
	t.Parallel()
	out := make(chan update, 10)
	p := &peer{out: out, open: map[holdfast.Attempt]bool{}, ended: map[holdfast.Attempt]bool{}}
	piece := func(step, text string) holdfast.Update {
		return holdfast.Update{Delta: &holdfast.Delta{Attempt: holdfast.Attempt{StepID: step}, Text: text}}
	}
	ctx := t.Context()
	p.piece(ctx, piece("first", "one "))
	p.record(ctx, update{Update: holdfast.Update{Record: &session.LogEntry{Record: session.Record{Seq: 7, Change: session.InferenceAnswered{StepID: "first"}}}}})
	p.piece(ctx, piece("first", "two"))
	p.piece(ctx, holdfast.Update{Dropped: &holdfast.Dropped{Attempt: holdfast.Attempt{StepID: "first"}}})
	p.piece(ctx, piece("second", "three"))
	close(out)
	var got []string
	for u := range out {
		switch {
		case u.Delta != nil:
			got = append(got, u.Delta.Text)
		case u.Record != nil:
			got = append(got, "record")
		default:
			got = append(got, "dropped")
		}
	}
	if want := []string{"one ", "record", "three"}; !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	if p.seq != 7 || len(p.open) != 1 {
		t.Errorf("after record %d, %d answers are open", p.seq, len(p.open))
	}
}
