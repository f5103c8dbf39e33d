package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Search finds passages. The index narrows the search: of each word it knows
// the messages up to where a log is indexed, and the few behind that are read.
// Whether a session's transcript holds a message is decided by its head and
// open tail, and which words it has by its text, of the best ones only.
func (s *Store) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	q, err := q.Check()
	if err != nil {
		return nil, err
	}
	var h *hunt
	err = s.consistent(ctx, func(tx pgx.Tx) error {
		h = &hunt{tx: tx, tenant: tenant, query: q}
		return h.run(ctx)
	})
	if err != nil {
		return nil, err
	}
	s.index.wantLogs(h.behind...) // the next search finds them in the index
	return q.Rank(h.passages), nil
}

// hunt is a search on its way.
type hunt struct {
	tx     pgx.Tx
	tenant string
	query  store.Search

	sessions   map[int64]*searched
	stretches  map[int64][]stretch // of each log
	candidates []candidate
	behind     []int64 // logs that are not indexed to their end

	passages []store.Passage
}

// searched is a session whose transcript is searched.
type searched struct {
	id    string
	known bool           // whether spans is
	spans []session.Span // none where it cannot be read
}

// stretch is the part of a log that is part of a session's history.
type stretch struct{ sid, log, after, upto int64 }

// candidate is a message that probably holds some of the words.
type candidate struct {
	log, seq int64
	at       time.Time
	found    int              // no fewer than it holds
	message  *session.Message // nil: not read yet
}

func (h *hunt) run(ctx context.Context) error {
	if err := h.findSessions(ctx); err != nil {
		return err
	}
	if len(h.sessions) > 0 {
		for _, step := range []func(context.Context) error{h.findStretches, h.askIndex, h.readBehind, h.lookAtBest} {
			if err := step(ctx); err != nil {
				return err
			}
		}
	}
	return h.findEntries(ctx)
}

// findSessions finds the sessions whose transcripts are searched.
func (h *hunt) findSessions(ctx context.Context) error {
	h.sessions = map[int64]*searched{}
	if h.query.Session == "" && h.query.User == "" {
		return nil
	}
	rows, err := h.tx.Query(ctx, `SELECT s.sid, s.id FROM sessions s JOIN listing l ON l.sid = s.sid
			WHERE s.tenant = @tenant AND s.id = @session AND @session::text <> '' AND l.status <> '`+string(session.Deleted)+`'
		UNION SELECT s.sid, s.id FROM listing l JOIN sessions s ON s.sid = l.sid
			WHERE l.tenant = @tenant AND l.user_id = @user AND @user::text <> '' AND l.status <> '`+string(session.Deleted)+`'`,
		pgx.NamedArgs{"tenant": h.tenant, "session": h.query.Session, "user": h.query.User})
	if err != nil {
		return err
	}
	var sid int64
	var id string
	_, err = pgx.ForEachRow(rows, []any{&sid, &id}, func() error {
		h.sessions[sid] = &searched{id: id}
		return nil
	})
	return err
}

// findStretches finds the logs their histories lie in.
func (h *hunt) findStretches(ctx context.Context) error {
	h.stretches = map[int64][]stretch{}
	rows, err := h.tx.Query(ctx, `SELECT sid, log, after_seq, upto_seq FROM lineage WHERE sid = ANY ($1)`, slices.Collect(maps.Keys(h.sessions)))
	if err != nil {
		return err
	}
	var s stretch
	_, err = pgx.ForEachRow(rows, []any{&s.sid, &s.log, &s.after, &s.upto}, func() error {
		h.stretches[s.log] = append(h.stretches[s.log], s)
		return nil
	})
	return err
}

// askIndex finds messages with enough of the words, as far as logs are
// indexed. Each pair of log and word is one look into the index; words that
// share a number count as one there, and may all be found.
func (h *hunt) askIndex(ctx context.Context) error {
	alike := len(h.query.Words) - len(hashes(h.query.Words))
	var logs, words []int64
	for log := range h.stretches {
		for _, word := range numbers(log, h.query.Words) {
			logs, words = append(logs, log), append(words, word)
		}
	}
	rows, err := h.tx.Query(ctx, `SELECT p.log, p.seq, p.at, count(*)::integer FROM unnest(@logs::bigint[], @words::bigint[]) AS w (log, word)
			CROSS JOIN LATERAL (SELECT p.log, p.seq, p.at FROM passages p WHERE p.words @> ARRAY[w.word] AND (@trace::boolean OR NOT p.trace) OFFSET 0) p
		WHERE p.log = w.log GROUP BY p.log, p.seq, p.at HAVING count(*) >= @least::integer`,
		pgx.NamedArgs{"logs": logs, "words": words, "trace": h.query.Trace, "least": h.query.Least - alike})
	if err != nil {
		return err
	}
	var c candidate
	_, err = pgx.ForEachRow(rows, []any{&c.log, &c.seq, &c.at, &c.found}, func() error {
		c.found += alike
		h.candidates = append(h.candidates, c)
		return nil
	})
	return err
}

// notDiscarded is the condition of a change that was not refused.
const notDiscarded = `NOT EXISTS (SELECT 1 FROM discards d WHERE d.log = c.log AND c.seq BETWEEN d.from_seq AND d.to_seq)`

// readBehind reads the messages that are not indexed yet.
func (h *hunt) readBehind(ctx context.Context) error {
	var logs, ends []int64
	for log, stretches := range h.stretches {
		end := slices.MaxFunc(stretches, func(a, b stretch) int { return cmp.Compare(a.upto, b.upto) }).upto
		logs, ends = append(logs, log), append(ends, end)
	}
	rows, err := h.tx.Query(ctx, `SELECT c.log, c.seq, c.body FROM unnest(@logs::bigint[], @ends::bigint[]) AS g (log, upto)
			LEFT JOIN indexed i ON i.log = g.log
			CROSS JOIN LATERAL (SELECT c.log, c.seq, c.body FROM changes c WHERE c.log = g.log AND c.seq > coalesce(i.upto, 0) AND c.seq <= g.upto
				AND c.kind = '`+messageAdded+`' ORDER BY c.seq OFFSET 0) c
		WHERE `+notDiscarded, pgx.NamedArgs{"logs": logs, "ends": ends})
	if err != nil {
		return err
	}
	var c candidate
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&c.log, &c.seq, &body}, func() error {
		if len(h.behind) == 0 || h.behind[len(h.behind)-1] != c.log {
			h.behind = append(h.behind, c.log)
		}
		message, ok := messageOf(body)
		if !ok || message.Trace && !h.query.Trace {
			return nil
		}
		if found := h.query.Found(store.MessageText(message)); found >= h.query.Least {
			h.candidates = append(h.candidates, candidate{log: c.log, seq: c.seq, at: message.CreatedAt, found: found, message: &message})
		}
		return nil
	})
	return err
}

// messageOf is the message that a row of a log adds, where it can be read.
func messageOf(body []byte) (session.Message, bool) {
	r, err := decodeBody(body)
	if err != nil {
		return session.Message{}, false
	}
	added, ok := r.Change.(session.MessageAdded)
	return added.Message, ok
}

// best orders candidates as passages are ordered, as far as they are known.
func (c candidate) best(o candidate) int {
	if c.found != o.found {
		return o.found - c.found
	}
	return o.at.Compare(c.at)
}

// lookAtBest makes passages of candidates, the best ones first, until no other
// can be among those that are asked for.
func (h *hunt) lookAtBest(ctx context.Context) error {
	slices.SortFunc(h.candidates, candidate.best)
	for rest := h.candidates; len(rest) > 0; {
		some := rest[:min(len(rest), max(64, 2*h.query.Limit))]
		rest = rest[len(some):]
		if err := h.look(ctx, some); err != nil {
			return err
		}
		if len(rest) == 0 || len(h.passages) < h.query.Limit {
			continue
		}
		slices.SortFunc(h.passages, store.Passage.Compare)
		last := h.passages[h.query.Limit-1]
		if (candidate{found: last.Found, at: last.At}).best(rest[0]) < 0 {
			return nil
		}
	}
	return nil
}

// look makes passages of those candidates that a transcript holds.
func (h *hunt) look(ctx context.Context, some []candidate) error {
	if err := h.readSpans(ctx, some); err != nil {
		return err
	}
	some = slices.DeleteFunc(slices.Clone(some), func(c candidate) bool { return h.holder(c) == "" })
	if err := h.readMessages(ctx, some); err != nil {
		return err
	}
	for _, c := range some {
		if c.message == nil || c.message.Trace && !h.query.Trace {
			continue
		}
		text := store.MessageText(*c.message)
		if found := h.query.Found(text); found >= h.query.Least {
			h.passages = append(h.passages, store.Passage{
				SessionID: h.holder(c), Seq: c.seq, MessageID: c.message.ID, Text: text, Found: found, At: c.message.CreatedAt,
			})
		}
	}
	return nil
}

// sharers are the sessions in whose history a candidate lies.
func (h *hunt) sharers(c candidate) []*searched {
	var found []*searched
	for _, s := range h.stretches[c.log] {
		if c.seq > s.after && c.seq <= s.upto {
			found = append(found, h.sessions[s.sid])
		}
	}
	return found
}

// holder is the session that a candidate is shown as one of: the one that is
// asked for, else the first by id. It is "" where no transcript holds it.
func (h *hunt) holder(c candidate) string {
	first := ""
	for _, s := range h.sharers(c) {
		holds := session.Holds(s.spans, c.seq) || h.query.Cleared && len(s.spans) > 0
		if holds && (first == "" || s.id == h.query.Session || first != h.query.Session && s.id < first) {
			first = s.id
		}
	}
	return first
}

// readMessages reads the messages of candidates that are not discarded.
func (h *hunt) readMessages(ctx context.Context, some []candidate) error {
	var places, logs, seqs []int64
	for i, c := range some {
		if c.message == nil {
			places, logs, seqs = append(places, int64(i)), append(logs, c.log), append(seqs, c.seq)
		}
	}
	if len(places) == 0 {
		return nil
	}
	rows, err := h.tx.Query(ctx, `SELECT g.place, c.body FROM unnest(@places::bigint[], @logs::bigint[], @seqs::bigint[]) AS g (place, log, seq)
			JOIN changes c ON c.log = g.log AND c.seq = g.seq
		WHERE c.kind = '`+messageAdded+`' AND `+notDiscarded, pgx.NamedArgs{"places": places, "logs": logs, "seqs": seqs})
	if err != nil {
		return err
	}
	var place int64
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&place, &body}, func() error {
		if message, ok := messageOf(body); ok {
			some[place].message = &message
		}
		return nil
	})
	return err
}

// readSpans reads which stretches make the transcripts of the sessions that
// share candidates, the open tail included.
func (h *hunt) readSpans(ctx context.Context, some []candidate) error {
	unknown := map[int64]*searched{}
	for _, c := range some {
		for _, s := range h.stretches[c.log] {
			if c.seq > s.after && c.seq <= s.upto && !h.sessions[s.sid].known {
				unknown[s.sid] = h.sessions[s.sid]
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	spans, err := spansOf(ctx, h.tx, slices.Collect(maps.Keys(unknown)))
	for sid, s := range unknown {
		s.known, s.spans = true, spans[sid]
	}
	return err
}

// findEntries finds what owners remember. Only newest versions have words.
func (h *hunt) findEntries(ctx context.Context) error {
	for _, o := range h.query.Owners(h.tenant) {
		args := ownerArgs(o)
		args["words"] = hashes(h.query.Words)
		rows, err := h.tx.Query(ctx, entryColumns+` AND v.version = m.version WHERE m.present AND `+ofOwner+` AND m.words && @words::bigint[]`, args)
		if err != nil {
			return err
		}
		entries, err := pgx.CollectRows(rows, entryOf)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if found := h.query.Found(store.EntryWords(e.Key, e.Value)); found >= h.query.Least {
				h.passages = append(h.passages, store.Passage{
					Owner: o, Key: e.Key, Version: e.Version, Text: store.EntryText(e.Value), Found: found, At: e.UpdatedAt,
				})
			}
		}
	}
	return nil
}

// spansOf are the stretches that make the transcripts of sessions, the open
// tail included. A session that cannot be read has none.
func spansOf(ctx context.Context, tx pgx.Tx, sids []int64) (map[int64][]session.Span, error) {
	rows, err := tx.Query(ctx, `WITH s AS MATERIALIZED (SELECT s.sid, s.id, n.seq, n.head FROM sessions s
			JOIN snapshots n ON n.sid = s.sid AND n.version = s.snap_version WHERE s.sid = ANY ($1) AND s.format = $2)
		SELECT s.sid, s.id, 0::bigint AS seq, s.head FROM s
		UNION ALL SELECT s.sid, s.id, c.seq, c.body FROM s JOIN changes c ON c.log = s.sid AND c.seq > s.seq
		ORDER BY sid, seq`, sids, session.FormatVersion)
	if err != nil {
		return nil, err
	}
	var sid int64
	var id string
	var row stored
	ids, kept := map[int64]string{}, map[int64][]stored{} // a snapshot, then the changes since
	_, err = pgx.ForEachRow(rows, []any{&sid, &id, &row.Seq, &row.Body}, func() error {
		ids[sid], kept[sid] = id, append(kept[sid], row)
		return nil
	})
	if err != nil {
		return nil, err
	}
	spans := map[int64][]session.Span{}
	for sid, rows := range kept {
		if s, err := foldedAll(ids[sid], rows); err == nil {
			spans[sid] = s.Spans()
		}
	}
	return spans, nil
}

// foldedAll is a session, without its messages, that all changes since a
// snapshot make of it.
func foldedAll(id string, rows []stored) (session.Session, error) {
	s, err := decodeHead(id, rows[0].Body)
	if err != nil {
		return session.Session{}, err
	}
	records, err := decodeRecords(id, rows[1:])
	if err != nil {
		return session.Session{}, err
	}
	return s.WithTail(records)
}
