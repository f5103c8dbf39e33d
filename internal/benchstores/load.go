package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"

	"github.com/holdfast-dev/holdfast/internal/benchmark"
)

// loads compares windows of a short and a long session, and a whole
// transcript with decoding what it is kept as.
func loads(ctx context.Context, b *bench) (results []Result, err error) {
	err = b.in(ctx, setting{}, func(p *openedStore) error {
		var works []work
		for _, messages := range []int{100, b.long} {
			s, err := b.createGrown(ctx, p, fmt.Sprint("of-", messages), messages)
			if err != nil {
				return err
			}
			works = append(works, loadLast(p, store.RefOf(s), window))
		}
		took, err := interleave(ctx, b.reads/10, b.reads, works...)
		if err != nil {
			return err
		}
		results = append(results, compareTimes("load.window", fmt.Sprintf("load of %d of %s messages, to %d of 100", window, benchmark.GroupDigits(int64(b.long)), window),
			atMost(1.3), took[1], took[0]))

		s, err := b.createGrown(ctx, p, "whole", b.whole)
		if err != nil {
			return err
		}
		decode, err := decodeLog(ctx, p, store.RefOf(s))
		if err != nil {
			return err
		}
		took, err = interleave(ctx, 2, b.heavy, func(ctx context.Context) error {
			s, err := p.LoadWhole(ctx, store.RefOf(s), 0)
			return expect(b.whole, s.Len(), err)
		}, func(context.Context) error {
			s, err := decode()
			return expect(b.whole, s.Len(), err)
		})
		if err != nil {
			return err
		}
		results = append(results, compareTimes("load.whole", fmt.Sprintf("load of all %s messages, to decoding them", benchmark.GroupDigits(int64(b.whole))),
			atMost(3), took[0], took[1]))
		return nil
	})
	return results, err
}

// expect refuses a load that did not bring so many messages.
func expect(want, got int, err error) error {
	if err == nil && got != want {
		return fmt.Errorf("loaded %d messages, not %d", got, want)
	}
	return err
}

// loadLast loads the last version, which shows so many messages.
func loadLast(st store.Store, r store.Ref, shown int) work {
	return func(ctx context.Context) error {
		s, err := st.Load(ctx, r, false)
		return expect(shown, len(s.WindowMessages()), err)
	}
}

// decodeLog has the log and the head of a session in memory, as they are kept,
// and makes the session of them.
func decodeLog(ctx context.Context, st durable, r store.Ref) (func() (session.Session, error), error) {
	s, err := st.LoadWhole(ctx, r, 0)
	if err != nil {
		return nil, err
	}
	head, err := session.EncodeHead(s)
	if err != nil {
		return nil, err
	}
	entries, err := st.Log(ctx, r, 0, int(s.Seq())+1)
	if err != nil {
		return nil, err
	}
	var log [][]byte
	for _, entry := range entries {
		if _, ok := entry.Change.(session.MessageAdded); !ok {
			continue
		}
		raw, err := entry.Record.MarshalJSON()
		if err != nil {
			return nil, err
		}
		log = append(log, raw)
	}
	return func() (session.Session, error) {
		messages := make([]session.Message, 0, len(log))
		for _, raw := range log {
			var r session.Record
			if err := r.UnmarshalJSON(raw); err != nil {
				return session.Session{}, err
			}
			if added, ok := r.Change.(session.MessageAdded); ok {
				messages = append(messages, added.Message)
			}
		}
		s, err := session.DecodeHead(head, nil)
		if err != nil {
			return s, err
		}
		return session.AttachMessages(s, messages)
	}, nil
}

// versions compares early, middle and late versions of a grown session with
// its last one. All of them are versions that moved the window, and so show
// its messages and the one that came with the move.
func versions(ctx context.Context, b *bench, p *openedStore, r store.Ref) ([]Result, error) {
	const first = 2 // version of the first save; the window moves with every tenth from there
	works := []work{loadLast(p, r, window+1)}
	points := []struct {
		name    string
		version int
	}{{"early", 100 + first}, {"middle", b.long/2 + first}, {"late", b.long - 2*b.last + first}}
	for _, at := range points {
		works = append(works, func(ctx context.Context) error {
			s, err := p.LoadAt(ctx, r, int64(at.version))
			return expect(window+1, len(s.WindowMessages()), err)
		})
	}
	took, err := interleave(ctx, b.reads/10, b.reads/2, works...)
	if err != nil {
		return nil, err
	}
	var results []Result
	for i, at := range points {
		name := fmt.Sprintf("load of version %s of %s, to the last", benchmark.GroupDigits(int64(at.version)), benchmark.GroupDigits(int64(b.long)))
		results = append(results, compareTimes("load.at."+at.name, name, nil, took[i+1], took[0]))
	}
	return results, nil
}

// forks compares a fork of a session of many saves with a new session.
func forks(ctx context.Context, b *bench, p *openedStore, r store.Ref) ([]Result, error) {
	parent, err := p.Load(ctx, r, false)
	if err != nil {
		return nil, err
	}
	took, err := interleave(ctx, b.reads/10, b.reads, func(ctx context.Context) error {
		s, err := parent.Fork(uuid.NewString(), uuid.NewString(), time.Now())
		if err == nil {
			_, err = p.Fork(ctx, s, commit("fork"))
		}
		return err
	}, func(ctx context.Context) error {
		s, err := newSession(uuid.NewString(), session.Seed{})
		if err == nil {
			_, err = p.Create(ctx, s, commit("create"))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return []Result{compareTimes("fork", fmt.Sprintf("fork of a session of %s turns, to an empty create", benchmark.GroupDigits(int64(b.long))), atMost(2), took[0], took[1])}, nil
}
