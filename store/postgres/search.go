package postgres

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Search finds passages. The index knows the messages with each word, up to the
// mark of each log; the few messages after the mark are read. Only for the best
// candidates the session's head and open tail decide whether its transcript
// holds the message, and the text decides which words it has.
func (s *Store) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	if err := s.usable(ctx, session.CheckTenant(tenant)); err != nil {
		return nil, err
	}
	q, err := q.Check()
	if err != nil {
		return nil, err
	}
	var r *searchRun
	err = s.consistent(ctx, func(ctx context.Context, tx pgx.Tx) error {
		r = &searchRun{tx: tx, tenant: tenant, query: q, atOnce: s.index.atOnce}
		return r.run(ctx)
	})
	if err != nil {
		return nil, err
	}
	s.index.wantLogs(r.unindexed...) // the next search finds them in the index
	return q.Rank(r.passages), nil
}

// searchRun is one search by words.
type searchRun struct {
	tx     pgx.Tx
	tenant string
	query  store.Search
	atOnce int // sessions, where all are searched

	sessions   map[int64]*searched
	stretches  map[int64][]stretch // of each log
	candidates []candidate
	unindexed  []int64 // logs that are not indexed to their end

	passages []store.Passage
}

// searched is a session whose transcript is searched.
type searched struct {
	id    string
	user  string
	known bool           // spans was read
	spans []session.Span // none where it cannot be read
}

// stretch is the part of a log that is part of a session's history.
type stretch struct{ sid, log, after, upto int64 }

// candidate is a message that probably holds some of the words.
type candidate struct {
	log, seq int64
	at       time.Time
	found    int              // at least as many words as it holds
	message  *session.Message // nil: not read yet
}

func (r *searchRun) run(ctx context.Context) error {
	search := r.searchSessions
	if r.query.Everywhere && r.query.Least == len(r.query.Words) {
		search = r.searchNewest
	}
	if err := search(ctx); err != nil {
		return err
	}
	return r.findEntries(ctx)
}

// searchSessions searches the transcripts of the sessions that the query means.
func (r *searchRun) searchSessions(ctx context.Context) error {
	if err := r.findSessions(ctx); err != nil || len(r.sessions) == 0 {
		return err
	}
	if err := r.findStretches(ctx); err != nil {
		return err
	}
	return r.searchLogs(ctx)
}

// searchLogs searches the logs whose stretches are known.
func (r *searchRun) searchLogs(ctx context.Context) error {
	for _, step := range []func(context.Context) error{r.queryIndex, r.readUnindexed, r.readBest} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// searchNewest searches the transcripts of all sessions for messages that hold
// all words. Those are ordered by time alone, so it begins with the sessions that
// were updated last and ends when the rest is older than what it found. What an
// open turn has written counts as old as the turn's session.
func (r *searchRun) searchNewest(ctx context.Context) error {
	r.sessions = map[int64]*searched{}
	done := map[int64]bool{} // logs
	for before, sid := int64(math.MaxInt64), int64(math.MaxInt64); ; {
		sids, last, err := r.nextSessions(ctx, before, sid)
		if err != nil || len(sids) == 0 {
			return err
		}
		before, sid = last, sids[len(sids)-1]
		if err := r.findSharers(ctx, sids, done); err != nil {
			return err
		}
		r.candidates = nil
		if err := r.searchLogs(ctx); err != nil {
			return err
		}
		slices.SortFunc(r.passages, store.Passage.Compare)
		if len(r.passages) >= r.query.Limit && slot(r.passages[r.query.Limit-1].At) > before {
			return nil
		}
	}
}

// nextSessions returns the sessions that were updated before one of them, the
// newest first, and the slot of the last.
func (r *searchRun) nextSessions(ctx context.Context, before, sid int64) (sids []int64, last int64, err error) {
	rows, err := r.tx.Query(ctx, `SELECT sid, updated_slot FROM listing WHERE tenant = $1 AND updated_slot <= $2 AND (updated_slot < $2 OR sid < $3)
		AND status <> '`+string(session.Deleted)+`' ORDER BY updated_slot DESC, sid DESC LIMIT $4`, r.tenant, before, sid, r.atOnce)
	if err != nil {
		return nil, 0, err
	}
	_, err = pgx.ForEachRow(rows, []any{&sid, &last}, func() error {
		sids = append(sids, sid)
		return nil
	})
	return sids, last, err
}

// findSharers finds the logs of sessions that are not done yet, and all sessions
// that share them.
func (r *searchRun) findSharers(ctx context.Context, sids []int64, done map[int64]bool) error {
	rows, err := r.tx.Query(ctx, `SELECT DISTINCT log FROM lineage WHERE sid = ANY ($1)`, sids)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	var logs []int64
	for _, log := range all {
		if !done[log] {
			done[log] = true
			logs = append(logs, log)
		}
	}
	r.stretches = map[int64][]stretch{}
	rows, err = r.tx.Query(ctx, `SELECT s.sid, s.id, g.log, g.after_seq, g.upto_seq FROM lineage g JOIN sessions s ON s.sid = g.sid JOIN listing l ON l.sid = g.sid
		WHERE g.log = ANY ($1) AND l.status <> '`+string(session.Deleted)+`'`, logs)
	if err != nil {
		return err
	}
	var s stretch
	var id string
	_, err = pgx.ForEachRow(rows, []any{&s.sid, &id, &s.log, &s.after, &s.upto}, func() error {
		r.stretches[s.log] = append(r.stretches[s.log], s)
		if r.sessions[s.sid] == nil {
			r.sessions[s.sid] = &searched{id: id}
		}
		return nil
	})
	return err
}

// findSessions finds the sessions whose transcripts are searched.
func (r *searchRun) findSessions(ctx context.Context) error {
	r.sessions = map[int64]*searched{}
	user, several := r.query.OfUser()
	if r.query.Session == "" && !several {
		return nil
	}
	rows, err := r.tx.Query(ctx, `SELECT s.sid, s.id, coalesce(l.user_id, '') FROM sessions s JOIN listing l ON l.sid = s.sid
			WHERE s.tenant = @tenant AND s.id = @session AND @session::text <> '' AND l.status <> '`+string(session.Deleted)+`'
		UNION SELECT s.sid, s.id, coalesce(l.user_id, '') FROM listing l JOIN sessions s ON s.sid = l.sid
			WHERE l.tenant = @tenant AND (l.user_id = @user OR @user::text = '') AND @several::boolean AND l.status <> '`+string(session.Deleted)+`'`,
		pgx.NamedArgs{"tenant": r.tenant, "session": r.query.Session, "user": user, "several": several})
	if err != nil {
		return err
	}
	var sid int64
	var id, owner string
	_, err = pgx.ForEachRow(rows, []any{&sid, &id, &owner}, func() error {
		r.sessions[sid] = &searched{id: id, user: owner}
		return nil
	})
	return err
}

// findStretches finds the logs that their histories lie in.
func (r *searchRun) findStretches(ctx context.Context) error {
	r.stretches = map[int64][]stretch{}
	rows, err := r.tx.Query(ctx, `SELECT sid, log, after_seq, upto_seq FROM lineage WHERE sid = ANY ($1)`, slices.Collect(maps.Keys(r.sessions)))
	if err != nil {
		return err
	}
	var s stretch
	_, err = pgx.ForEachRow(rows, []any{&s.sid, &s.log, &s.after, &s.upto}, func() error {
		r.stretches[s.log] = append(r.stretches[s.log], s)
		return nil
	})
	return err
}

// queryIndex finds messages with enough of the words, as far as logs are
// indexed. Each pair of log and word is one lookup. Words with the same hash
// count as one there, so all of them may be found.
func (r *searchRun) queryIndex(ctx context.Context) error {
	alike := len(r.query.Words) - len(hashes(r.query.Words))
	var logs, words []int64
	for log := range r.stretches {
		for _, word := range indexKeys(log, r.query.Words) {
			logs, words = append(logs, log), append(words, word)
		}
	}
	rows, err := r.tx.Query(ctx, `SELECT p.log, p.seq, p.at, count(*)::integer FROM unnest(@logs::bigint[], @words::bigint[]) AS w (log, word)
			CROSS JOIN LATERAL (SELECT p.log, p.seq, p.at FROM passages p WHERE p.words @> ARRAY[w.word] AND (@trace::boolean OR NOT p.trace) OFFSET 0) p
		WHERE p.log = w.log GROUP BY p.log, p.seq, p.at HAVING count(*) >= @least::integer`,
		pgx.NamedArgs{"logs": logs, "words": words, "trace": r.query.Trace, "least": r.query.Least - alike})
	if err != nil {
		return err
	}
	var c candidate
	_, err = pgx.ForEachRow(rows, []any{&c.log, &c.seq, &c.at, &c.found}, func() error {
		c.found += alike
		r.candidates = append(r.candidates, c)
		return nil
	})
	return err
}

// searchable is the SQL condition of a change that was neither discarded nor
// taken out of search.
const searchable = `NOT EXISTS (SELECT 1 FROM discards d WHERE d.log = c.log AND c.seq BETWEEN d.from_seq AND d.to_seq) AND ` + notForgotten

// readUnindexed reads the messages that are not indexed yet.
func (r *searchRun) readUnindexed(ctx context.Context) error {
	var logs, ends []int64
	for log, stretches := range r.stretches {
		end := slices.MaxFunc(stretches, func(a, b stretch) int { return cmp.Compare(a.upto, b.upto) }).upto
		logs, ends = append(logs, log), append(ends, end)
	}
	rows, err := r.tx.Query(ctx, `SELECT c.log, c.seq, c.body FROM unnest(@logs::bigint[], @ends::bigint[]) AS g (log, upto)
			LEFT JOIN indexed i ON i.log = g.log
			CROSS JOIN LATERAL (SELECT c.log, c.seq, c.body FROM changes c WHERE c.log = g.log AND c.seq > coalesce(i.upto, 0) AND c.seq <= g.upto
				AND c.kind = '`+messageAdded+`' ORDER BY c.seq OFFSET 0) c
		WHERE `+searchable, pgx.NamedArgs{"logs": logs, "ends": ends})
	if err != nil {
		return err
	}
	var c candidate
	var body []byte
	_, err = pgx.ForEachRow(rows, []any{&c.log, &c.seq, &body}, func() error {
		if len(r.unindexed) == 0 || r.unindexed[len(r.unindexed)-1] != c.log {
			r.unindexed = append(r.unindexed, c.log)
		}
		message, ok := messageOf(body)
		if !ok || message.Trace && !r.query.Trace {
			return nil
		}
		if found := r.query.Found(store.MessageText(message)); found >= r.query.Least {
			r.candidates = append(r.candidates, candidate{log: c.log, seq: c.seq, at: message.CreatedAt, found: found, message: &message})
		}
		return nil
	})
	return err
}

// messageOf returns the message that a row of a log adds, if it can be read.
func messageOf(body []byte) (session.Message, bool) {
	r, err := decodeBody(body)
	if err != nil {
		return session.Message{}, false
	}
	added, ok := r.Change.(session.MessageAdded)
	return added.Message, ok
}

// compare orders candidates as passages are ordered, by what is known of them.
func (c candidate) compare(o candidate) int {
	if c.found != o.found {
		return o.found - c.found
	}
	return o.at.Compare(c.at)
}

// readBest turns candidates into passages, the best ones first, until no other
// can be among the wanted ones.
func (r *searchRun) readBest(ctx context.Context) error {
	slices.SortFunc(r.candidates, candidate.compare)
	for rest := r.candidates; len(rest) > 0; {
		some := rest[:min(len(rest), max(64, 2*r.query.Limit))]
		rest = rest[len(some):]
		if err := r.addPassages(ctx, some); err != nil {
			return err
		}
		if len(rest) == 0 || len(r.passages) < r.query.Limit {
			continue
		}
		slices.SortFunc(r.passages, store.Passage.Compare)
		last := r.passages[r.query.Limit-1]
		if (candidate{found: last.Found, at: last.At}).compare(rest[0]) < 0 {
			return nil
		}
	}
	return nil
}

// addPassages adds the passages of those candidates that a transcript holds.
func (r *searchRun) addPassages(ctx context.Context, some []candidate) error {
	if err := r.readSpans(ctx, some); err != nil {
		return err
	}
	some = slices.DeleteFunc(slices.Clone(some), func(c candidate) bool { return r.holder(c) == "" })
	if err := r.readMessages(ctx, some); err != nil {
		return err
	}
	for _, c := range some {
		if c.message == nil || c.message.Trace && !r.query.Trace {
			continue
		}
		text := store.MessageText(*c.message)
		if found := r.query.Found(text); found >= r.query.Least {
			r.passages = append(r.passages, store.Passage{
				SessionID: r.holder(c), Seq: c.seq, MessageID: c.message.ID, Text: text, Found: found, At: c.message.CreatedAt,
			})
		}
	}
	return nil
}

// sharers are the sessions in whose history a candidate lies.
func (r *searchRun) sharers(c candidate) []*searched {
	var found []*searched
	for _, s := range r.stretches[c.log] {
		if c.seq > s.after && c.seq <= s.upto {
			found = append(found, r.sessions[s.sid])
		}
	}
	return found
}

// holder is the session that a candidate is found in: the searched one, else
// the first by id, "" if no transcript holds it.
func (r *searchRun) holder(c candidate) string {
	first := ""
	for _, s := range r.sharers(c) {
		holds := session.Holds(s.spans, c.seq) || r.query.Cleared && len(s.spans) > 0
		if holds && (first == "" || s.id == r.query.Session || first != r.query.Session && s.id < first) {
			first = s.id
		}
	}
	return first
}

// readMessages reads the messages of candidates that are not discarded.
func (r *searchRun) readMessages(ctx context.Context, some []candidate) error {
	var places, logs, seqs []int64
	for i, c := range some {
		if c.message == nil {
			places, logs, seqs = append(places, int64(i)), append(logs, c.log), append(seqs, c.seq)
		}
	}
	if len(places) == 0 {
		return nil
	}
	rows, err := r.tx.Query(ctx, `SELECT g.place, c.body FROM unnest(@places::bigint[], @logs::bigint[], @seqs::bigint[]) AS g (place, log, seq)
			JOIN changes c ON c.log = g.log AND c.seq = g.seq
		WHERE c.kind = '`+messageAdded+`' AND `+searchable, pgx.NamedArgs{"places": places, "logs": logs, "seqs": seqs})
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

// readSpans reads the transcripts' spans of the sessions that share candidates,
// with the open tail.
func (r *searchRun) readSpans(ctx context.Context, some []candidate) error {
	unknown := map[int64]*searched{}
	for _, c := range some {
		for _, s := range r.stretches[c.log] {
			if c.seq > s.after && c.seq <= s.upto && !r.sessions[s.sid].known {
				unknown[s.sid] = r.sessions[s.sid]
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	spans, err := spansOf(ctx, r.tx, slices.Collect(maps.Keys(unknown)))
	for sid, s := range unknown {
		s.known, s.spans = true, spans[sid]
	}
	return err
}

// findEntries finds entries of the searched owners. Only the newest versions
// are indexed.
func (r *searchRun) findEntries(ctx context.Context) error {
	for _, o := range r.query.Owners(r.tenant) {
		args := ownerArgs(o)
		args["words"] = hashes(r.query.Words)
		rows, err := r.tx.Query(ctx, entryColumns+` AND v.version = m.version WHERE m.present AND `+ofOwner+` AND m.words && @words::bigint[]`, args)
		if err != nil {
			return err
		}
		entries, err := pgx.CollectRows(rows, entryOf)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if found := r.query.Found(store.EntryWords(e.Key, e.Value)); found >= r.query.Least {
				r.passages = append(r.passages, store.Passage{
					Owner: o, Key: e.Key, Version: e.Version, Text: store.EntryText(e.Value), Found: found, At: e.UpdatedAt,
				})
			}
		}
	}
	return nil
}

// spansOf returns the spans of the transcripts of sessions, with the open tail.
// A session that cannot be read has none.
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
	var row logRow
	ids, kept := map[int64]string{}, map[int64][]logRow{} // a snapshot, then the changes since
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
			spans[sid] = session.Spans(s)
		}
	}
	return spans, nil
}

// foldedAll returns a session without its messages, folded from a snapshot and
// all changes since.
func foldedAll(id string, rows []logRow) (session.Session, error) {
	s, _, err := decodeHead(id, rows[0].Body)
	if err != nil {
		return session.Session{}, err
	}
	records, err := decodeRecords(id, rows[1:])
	if err != nil {
		return session.Session{}, err
	}
	return session.ApplyTail(s, records)
}
