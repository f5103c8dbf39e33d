package postgres

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Nearest finds passages by their meaning. Of a large place that has an index it
// compares the vectors of the cells near the query, of others every vector.
func (s *Store) Nearest(ctx context.Context, tenant string, q store.Near) ([]store.Passage, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	q, err := q.Check()
	if err != nil {
		return nil, err
	}
	var found []store.Passage
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		n := &vectorSearch{searchRun: searchRun{tx: tx, tenant: tenant, query: q.Search}, near: q, best: q.Nearest(), cells: &s.cells, logs: map[heldBy]int64{}}
		found, err = n.run(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// vectorSearch is one search by meaning. It asks whether a transcript holds a
// message only for messages near enough to be among the best.
type vectorSearch struct {
	searchRun
	near store.Near
	eid  int64
	best *store.Nearest

	cells *cellBuilding

	discards map[int64][]session.Span // of each log
	logs     map[heldBy]int64         // where the found messages lie
}

// heldBy is a message as a session shows it.
type heldBy struct {
	id  string
	seq int64
}

func (n *vectorSearch) run(ctx context.Context) (found []store.Passage, err error) {
	if n.eid, err = embedderID(ctx, n.tx, n.near.Embedder); err != nil || n.eid == 0 {
		return nil, err
	}
	if err := n.findSessions(ctx); err != nil {
		return nil, err
	}
	if len(n.sessions) > 0 {
		for _, step := range []func(context.Context) error{n.findStretches, n.findDiscards, n.compareTranscripts} {
			if err := step(ctx); err != nil {
				return nil, err
			}
		}
	}
	for _, o := range n.query.Owners(n.tenant) {
		if err := n.compareEntries(ctx, o); err != nil {
			return nil, err
		}
	}
	found = n.best.Best()
	if err := n.fillMessages(ctx, found); err != nil {
		return nil, err
	}
	return found, n.fillEntries(ctx, found)
}

// findDiscards reads what was discarded, before or after its vector was stored.
func (n *vectorSearch) findDiscards(ctx context.Context) error {
	n.discards = map[int64][]session.Span{}
	rows, err := n.tx.Query(ctx, `SELECT log, from_seq, to_seq FROM discards WHERE log = ANY ($1)`, slices.Collect(maps.Keys(n.stretches)))
	if err != nil {
		return err
	}
	var log int64
	var span session.Span
	_, err = pgx.ForEachRow(rows, []any{&log, &span.From, &span.To}, func() error {
		n.discards[log] = append(n.discards[log], span)
		return nil
	})
	return err
}

// fetched is how many vectors are read in one round trip.
const fetched = 2048

// compareMessages compares all vectors of logs, part by part, and after each part
// finds the sessions that hold the near ones. It returns how many it compared.
func (n *vectorSearch) compareMessages(ctx context.Context, logs []int64) (compared int, err error) {
	_, err = n.tx.Exec(ctx, `DECLARE vectors NO SCROLL CURSOR FOR SELECT log, seq, at, vector FROM message_vectors
		WHERE log = ANY ($1::bigint[]) AND eid = $2::bigint AND ($3::boolean OR NOT trace) AND vector IS NOT NULL`,
		logs, n.eid, n.query.Trace)
	if err != nil {
		return 0, err
	}
	for {
		rows, err := n.tx.Query(ctx, `FETCH `+strconv.Itoa(fetched)+` FROM vectors`)
		if err != nil {
			return compared, err
		}
		read, some := 0, []scored{}
		var c scored
		var vector pgtype.DriverBytes // good until the next row
		_, err = pgx.ForEachRow(rows, []any{&c.log, &c.seq, &c.at, &vector}, func() error {
			read++
			var ok bool
			if c.score, c.part, ok = store.Packed(vector).Score(n.near.Vector); ok && n.best.Admits(c.score) && !session.Holds(n.discards[c.log], c.seq) {
				some = append(some, c)
			}
			return nil
		})
		if err == nil {
			err = n.addHeld(ctx, some)
		}
		if compared += read; err == nil && read < fetched {
			_, err = n.tx.Exec(ctx, `CLOSE vectors`)
			return compared, err
		}
		if err != nil {
			return compared, err
		}
	}
}

// scored is a message whose vector is near enough.
type scored struct {
	log, seq int64
	at       time.Time
	score    float64
	part     int
}

// addHeld adds those messages that a transcript holds.
func (n *vectorSearch) addHeld(ctx context.Context, some []scored) error {
	candidates := make([]candidate, len(some))
	for i, c := range some {
		candidates[i] = candidate{log: c.log, seq: c.seq}
	}
	if err := n.readSpans(ctx, candidates); err != nil {
		return err
	}
	for i, c := range some {
		if id := n.holder(candidates[i]); id != "" && n.best.Admits(c.score) {
			n.logs[heldBy{id, c.seq}] = c.log
			n.best.Add(store.Passage{SessionID: id, Seq: c.seq, Score: c.score, Part: c.part, At: session.Instant(c.at)})
		}
	}
	return nil
}

// compareEntries compares the vectors of an owner's newest entries.
func (n *vectorSearch) compareEntries(ctx context.Context, o store.Owner) error {
	args := ownerArgs(o)
	args["eid"] = n.eid
	rows, err := n.tx.Query(ctx, `SELECT m.key, m.version, v.updated_at, e.vector FROM memories m
			JOIN memory_versions v ON v.mid = m.mid AND v.version = m.version
			JOIN entry_vectors e ON e.mid = m.mid AND e.eid = @eid AND e.version = m.version
		WHERE m.present AND `+ofOwner+` AND e.vector IS NOT NULL`, args)
	if err != nil {
		return err
	}
	p := store.Passage{Owner: o}
	var at time.Time
	var vector pgtype.DriverBytes
	_, err = pgx.ForEachRow(rows, []any{&p.Key, &p.Version, &at, &vector}, func() error {
		var ok bool
		if p.Score, p.Part, ok = store.Packed(vector).Score(n.near.Vector); ok {
			p.At = session.Instant(at)
			n.best.Add(p)
		}
		return nil
	})
	return err
}

// fillMessages reads what found messages say.
func (n *vectorSearch) fillMessages(ctx context.Context, found []store.Passage) error {
	var places []int
	var some []candidate
	for i, p := range found {
		if p.Key == "" {
			places, some = append(places, i), append(some, candidate{log: n.logs[heldBy{p.SessionID, p.Seq}], seq: p.Seq})
		}
	}
	if err := n.readMessages(ctx, some); err != nil {
		return err
	}
	for i, c := range some {
		if c.message != nil {
			found[places[i]].MessageID, found[places[i]].Text = c.message.ID, store.MessageText(*c.message)
		}
	}
	return nil
}

// fillEntries reads what found entries say.
func (n *vectorSearch) fillEntries(ctx context.Context, found []store.Passage) error {
	keys := map[store.Owner][]string{}
	for _, p := range found {
		if p.Key != "" {
			keys[p.Owner] = append(keys[p.Owner], p.Key)
		}
	}
	for o, some := range keys {
		args := ownerArgs(o)
		args["keys"] = some
		rows, err := n.tx.Query(ctx, entryColumns+` AND v.version = m.version WHERE m.present AND `+ofOwner+` AND m.key = ANY (@keys::text[])`, args)
		if err != nil {
			return err
		}
		entries, err := pgx.CollectRows(rows, entryOf)
		if err != nil {
			return err
		}
		texts := map[string]string{}
		for _, e := range entries {
			texts[e.Key] = store.EntryText(e.Value)
		}
		for i, p := range found {
			if p.Key != "" && p.Owner == o {
				found[i].Text = texts[p.Key]
			}
		}
	}
	return nil
}
