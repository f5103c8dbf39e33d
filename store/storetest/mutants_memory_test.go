package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// The stores of this file remember wrongly, each in one way.

func memoryMutants() map[string]mutant {
	return map[string]mutant{
		"compare loosened": {func(s Full) store.Store { return noCompare{s} }, []string{"memory/comparesAndSets", "memory/ofManyComparersOneWins"}},
		"null is nothing":  {func(s Full) store.Store { return noNull{s} }, []string{"memory/nullIsAValue"}},
		"calls unknown": {func(s Full) store.Store { return noCalls{s} }, []string{
			"memory/callWritesOnce", "memory/ofOneCallManyTimesOneWrites", "memory/callIsKnownAfterForgetting", "memory/survivesReopening"}},
		"calls of all sessions": {func(s Full) store.Store { return allCalls{s} }, []string{"memory/callWritesOnce"}},
		"newest only":           {func(s Full) store.Store { return newestOnly{s} }, []string{"memory/versionsCountAndStayReadable", "memory/ofManyWritersNoneIsLost"}},
		"versions restart":      {func(s Full) store.Store { return restarts{s} }, []string{"memory/forgottenIsGoneAndVersionsGoOn"}},
		"forgotten is kept":     {func(s Full) store.Store { return hoarder{s, map[string]store.Entry{}} }, []string{"memory/forgottenIsGoneAndVersionsGoOn"}},
		"dry run forgets":       {func(s Full) store.Store { return wet{s} }, []string{"memory/forgetAllLeavesNothing"}},
		"prefix by bytes":       {func(s Full) store.Store { return bytePrefix{s} }, []string{"memory/prefixStandsForWholeSegments"}},
		"keys folded":           {func(s Full) store.Store { return foldedKeys{s} }, []string{"memory/listsInOrderOfBytes"}},
		"page cut":              {func(s Full) store.Store { return cutPage{s} }, []string{"memory/listsInOrderOfBytes", "memory/pagesAreStableUnderInserts"}},
		"scopes mixed":          {func(s Full) store.Store { return oneScope{s} }, []string{"memory/lookAlikeOwnersNeverMeet", "memory/forgetAllLeavesNothing"}},
		"numbers rounded":       {func(s Full) store.Store { return rounds{s} }, []string{"memory/valuesComeBackAsTheyWere"}},
		"values shared":         {func(s Full) store.Store { return &sharedValues{Full: s} }, []string{"memory/returnedValuesAreCopies"}},
		"too large is taken":    {func(s Full) store.Store { return cutsValues{s} }, []string{"memory/hasALimitOfSize"}},
		"labels of the newest":  {func(s Full) store.Store { return newestLabels{s} }, []string{"memory/labelsComeBackWithTheirVersion"}},
		"tenants expire alike":  {func(s Full) store.Store { return anyExpired{s} }, []string{"memory/expiredEntriesAreListed"}},
		"keys mended":           {func(s Full) store.Store { return mendsKeys{s} }, []string{"memory/badRequestsAreRefused"}},
	}
}

type noCompare struct{ Full }

func (m noCompare) Remember(ctx context.Context, o store.Owner, memo store.Memo) (store.Entry, error) {
	memo.IfVersion = nil
	return m.Full.Remember(ctx, o, memo)
}

type newestLabels struct{ Full }

func (m newestLabels) Entry(ctx context.Context, o store.Owner, key string, version int64) (store.Entry, bool, error) {
	e, found, err := m.Full.Entry(ctx, o, key, version)
	if newest, ok, _ := m.Full.Entry(ctx, o, key, 0); ok {
		e.Labels = newest.Labels
	}
	return e, found, err
}

type anyExpired struct{ Full }

func (m anyExpired) Expired(ctx context.Context, tenant string, at time.Time, limit int) ([]store.OwnedEntry, error) {
	expired, err := m.Full.Expired(ctx, tenant, at, limit)
	if err != nil {
		return nil, err
	}
	others, err := m.Full.Expired(ctx, "other", at, limit)
	return append(expired, others...), err
}

type noNull struct{ Full }

func (m noNull) Entry(ctx context.Context, o store.Owner, key string, version int64) (store.Entry, bool, error) {
	e, found, err := m.Full.Entry(ctx, o, key, version)
	return e, found && string(e.Value) != "null", err
}

type noCalls struct{ Full }

func (m noCalls) Remember(ctx context.Context, o store.Owner, memo store.Memo) (store.Entry, error) {
	memo.CallID = ""
	return m.Full.Remember(ctx, o, memo)
}

type allCalls struct{ Full }

func (m allCalls) Remember(ctx context.Context, o store.Owner, memo store.Memo) (store.Entry, error) {
	if memo.CallID != "" {
		memo.SessionID = "s"
	}
	return m.Full.Remember(ctx, o, memo)
}

type newestOnly struct{ Full }

func (m newestOnly) Entry(ctx context.Context, o store.Owner, key string, _ int64) (store.Entry, bool, error) {
	return m.Full.Entry(ctx, o, key, 0)
}

type restarts struct{ Full }

func (m restarts) Forget(ctx context.Context, o store.Owner, key string, ifVersion *int64) (bool, error) {
	there, err := m.Full.Forget(ctx, o, key, ifVersion)
	if err == nil {
		_, err = m.ForgetAll(ctx, o, false)
	}
	return there, err
}

// hoarder keeps what was forgotten where it can be asked for by version.
type hoarder struct {
	Full
	kept map[string]store.Entry
}

func (m hoarder) Forget(ctx context.Context, o store.Owner, key string, ifVersion *int64) (bool, error) {
	if e, ok, err := m.Full.Entry(ctx, o, key, 0); ok && err == nil {
		m.kept[fmt.Sprint(o, key, e.Version)] = e
	}
	return m.Full.Forget(ctx, o, key, ifVersion)
}

func (m hoarder) Entry(ctx context.Context, o store.Owner, key string, version int64) (store.Entry, bool, error) {
	if e, ok := m.kept[fmt.Sprint(o, key, version)]; ok {
		return e, true, nil
	}
	return m.Full.Entry(ctx, o, key, version)
}

type wet struct{ Full }

func (m wet) ForgetAll(ctx context.Context, o store.Owner, _ bool) (int, error) {
	return m.Full.ForgetAll(ctx, o, false)
}

type bytePrefix struct{ Full }

func (m bytePrefix) Entries(ctx context.Context, o store.Owner, prefix, after string, limit int) ([]store.Entry, error) {
	entries, err := m.Full.Entries(ctx, o, "", after, limit)
	return slices.DeleteFunc(entries, func(e store.Entry) bool { return !strings.HasPrefix(e.Key, prefix) }), err
}

type foldedKeys struct{ Full }

func (m foldedKeys) Remember(ctx context.Context, o store.Owner, memo store.Memo) (store.Entry, error) {
	memo.Key = strings.ToLower(memo.Key)
	return m.Full.Remember(ctx, o, memo)
}

type cutPage struct{ Full }

func (m cutPage) Entries(ctx context.Context, o store.Owner, prefix, after string, limit int) ([]store.Entry, error) {
	entries, err := m.Full.Entries(ctx, o, prefix, after, limit)
	if limit > 1 && len(entries) == limit {
		entries = slices.Delete(entries, 0, 1)
	}
	return entries, err
}

type oneScope struct{ Full }

func (m oneScope) ForgetAll(ctx context.Context, o store.Owner, dry bool) (int, error) {
	agents := o
	agents.Scope = store.ScopeAgent
	if _, err := m.Full.ForgetAll(ctx, agents, dry); err != nil {
		return 0, err
	}
	return m.Full.ForgetAll(ctx, o, dry)
}

type rounds struct{ Full }

func (m rounds) Remember(ctx context.Context, o store.Owner, memo store.Memo) (store.Entry, error) {
	var v any
	if json.Unmarshal(memo.Value, &v) == nil {
		rounded, err := session.JSON(v)
		if err != nil {
			return store.Entry{}, err
		}
		memo.Value = rounded
	}
	return m.Full.Remember(ctx, o, memo)
}

// sharedValues returns one entry to everybody.
type sharedValues struct {
	Full
	mu   sync.Mutex
	kept []store.Entry
}

func (m *sharedValues) Entries(ctx context.Context, o store.Owner, prefix, after string, limit int) ([]store.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	if m.kept == nil {
		m.kept, err = m.Full.Entries(ctx, o, prefix, after, limit)
	}
	return m.kept, err
}

func (m *sharedValues) Entry(ctx context.Context, o store.Owner, key string, _ int64) (store.Entry, bool, error) {
	entries, err := m.Entries(ctx, o, key, "", 1)
	if err != nil || len(entries) == 0 {
		return store.Entry{}, false, err
	}
	return entries[0], true, nil
}

// cutsValues keeps what is too large as nothing.
type cutsValues struct{ Full }

func (m cutsValues) Remember(ctx context.Context, o store.Owner, memo store.Memo) (store.Entry, error) {
	if len(memo.Value) > 256<<10 {
		memo.Value = nil
	}
	return m.Full.Remember(ctx, o, memo)
}

type mendsKeys struct{ Full }

func (m mendsKeys) Remember(ctx context.Context, o store.Owner, memo store.Memo) (store.Entry, error) {
	memo.Key = strings.Trim(memo.Key, "/")
	return m.Full.Remember(ctx, o, memo)
}

// The stores below search wrongly, each in one way.

func searchMutants() map[string]mutant {
	asks := func(alter func(*store.Search)) func(Full) store.Store {
		return func(s Full) store.Store { return asksFor{s, alter} }
	}
	finds := func(keep func(context.Context, Full, store.Ref, store.Passage) bool) func(Full) store.Store {
		return func(s Full) store.Store { return findsOnly{s, keep} }
	}
	return map[string]mutant{
		"found when sealed": {finds(func(ctx context.Context, s Full, r store.Ref, p store.Passage) bool {
			i, err := s.Info(ctx, r)
			return err == nil && p.Seq <= i.Seq
		}), []string{"search/findsAMessageAsSoonAsItIsDurable", "search/findsWhatWasAcknowledged"}},
		"own changes only": {finds(func(ctx context.Context, s Full, r store.Ref, p store.Passage) bool {
			i, err := s.Info(ctx, r)
			return err == nil && (i.Fork == nil || p.Seq > i.Fork.Seq)
		}), []string{"search/forksFindWhatTheyShare", "search/forksAreCutAtTheirPoint"}},
		"window only": {finds(func(ctx context.Context, s Full, r store.Ref, p store.Passage) bool {
			now, err := s.Load(ctx, r, true)
			return err == nil && now.Shown(p.Seq)
		}), []string{"search/prunedIsFound"}},
		"index never shrinks": {func(s Full) store.Store { return &stuck{Full: s, found: map[string][]store.Passage{}} }, []string{
			"search/neverFindsTheDiscarded", "search/deletedSessionsAreNotSearched", "search/purgedSessionsAreGone",
			"search/clearedIsFoundOnRequest", "search/findsTheNewestOfAnEntry"}},
		"transcripts stay": {func(s Full) store.Store { return keepsTranscripts{s} }, []string{"search/forgottenTranscriptsAreNeverFoundAgain"}},
		"clear ignored": {asks(func(q *store.Search) { q.Cleared = true }), []string{
			"search/clearedIsFoundOnRequest", "search/rewoundIsFoundOnRequest", "search/forksAreCutAtTheirPoint"}},
		"trace ignored":      {asks(func(q *store.Search) { q.Trace = true }), []string{"search/traceIsFoundOnRequest"}},
		"one word is enough": {asks(func(q *store.Search) { q.Least = 0 }), []string{"search/asksForTheLeast"}},
		"no default limit":   {asks(func(q *store.Search) { q.Limit = max(q.Limit, 51) }), []string{"search/ranksAndLimits"}},
		"agents see users":   {asks(func(q *store.Search) { q.User = cmp.Or(q.User, "ann") }), []string{"search/agentHasEntriesOnly"}},
		"everywhere is a user's": {asks(func(q *store.Search) {
			if q.Everywhere {
				q.Everywhere, q.User = false, "ann"
			}
		}), []string{"search/everywhereHasAllSessionsAndNoEntries"}},
		"words are patterns": {asks(trimPatterns), []string{"search/wordsAreNoPatterns"}},
		"case counts": {asks(func(q *store.Search) {
			q.Words = slices.DeleteFunc(q.Words, func(w string) bool { return w == "strasse" || w == "x" })
		}), []string{"search/foldsCaseInEveryScript"}},
		"newest first":        {func(s Full) store.Store { return newestFirst{s} }, []string{"search/ranksAndLimits"}},
		"shared found twice":  {func(s Full) store.Store { return everyHolder{s} }, []string{"search/severalPlacesHoldAPassageOnce"}},
		"tenants searched":    {func(s Full) store.Store { return allTenants{s} }, []string{"search/lookAlikeTenantsNeverMeet"}},
		"users by prefix":     {func(s Full) store.Store { return userPrefix{s} }, []string{"search/userHasSessionsAndEntries"}},
		"long texts cut":      {func(s Full) store.Store { return cutsTexts{s} }, []string{"search/takesLongTexts"}},
		"bad search answered": {func(s Full) store.Store { return answersAll{s} }, []string{"search/badSearchesAreRefused"}},
	}
}

func trimPatterns(q *store.Search) {
	for i, w := range q.Words {
		q.Words[i] = cmp.Or(strings.Trim(w, `*%_'"`), "*")
	}
}

// asksFor searches for something else than it was asked for.
type keepsTranscripts struct{ Full }

func (m keepsTranscripts) ForgetTranscripts(ctx context.Context, tenant, user string, _ bool) (int, error) {
	return m.Full.ForgetTranscripts(ctx, tenant, user, true)
}

type asksFor struct {
	Full
	alter func(*store.Search)
}

func (m asksFor) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	q.Words = slices.Clone(q.Words)
	m.alter(&q)
	return m.Full.Search(ctx, tenant, q)
}

// findsOnly finds some messages and not others.
type findsOnly struct {
	Full
	keep func(context.Context, Full, store.Ref, store.Passage) bool
}

func (m findsOnly) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	found, err := m.Full.Search(ctx, tenant, q)
	return slices.DeleteFunc(found, func(p store.Passage) bool {
		return p.Key == "" && !m.keep(ctx, m.Full, store.Ref{Tenant: tenant, ID: p.SessionID}, p)
	}), err
}

// stuck finds for ever what it found once.
type stuck struct {
	Full
	mu    sync.Mutex
	found map[string][]store.Passage
}

func (m *stuck) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, err := m.Full.Search(ctx, tenant, q)
	key := fmt.Sprint(tenant, q)
	if len(found) >= len(m.found[key]) {
		m.found[key] = found
	}
	return m.found[key], err
}

type newestFirst struct{ Full }

func (m newestFirst) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	limit := q.Limit
	q.Limit = 1000
	found, err := m.Full.Search(ctx, tenant, q)
	slices.SortStableFunc(found, func(a, b store.Passage) int { return b.At.Compare(a.At) })
	if limit > 0 {
		found = found[:min(limit, len(found))]
	}
	slices.SortFunc(found, store.Passage.Compare)
	return found, err
}

// everyHolder searches each session of a user by itself.
type everyHolder struct{ Full }

func (m everyHolder) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	found, err := m.Full.Search(ctx, tenant, q)
	if err != nil || q.User == "" {
		return found, err
	}
	page, err := m.List(ctx, tenant, store.Query{UserID: q.User})
	for _, i := range page.Items {
		if i.ID == q.Session || i.Fork == nil {
			continue
		}
		more, err := m.Full.Search(ctx, tenant, store.Search{Words: q.Words, Session: i.ID})
		if err != nil {
			return nil, err
		}
		found = append(found, slices.DeleteFunc(more, func(p store.Passage) bool { return p.Seq > i.Fork.Seq })...)
	}
	return found, err
}

type allTenants struct{ Full }

func (m allTenants) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	found, err := m.Full.Search(ctx, tenant, q)
	if err == nil && len(found) == 0 {
		return m.Full.Search(ctx, session.DefaultTenant, q)
	}
	return found, err
}

type userPrefix struct{ Full }

func (m userPrefix) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	found, err := m.Full.Search(ctx, tenant, q)
	if err != nil || q.User != "an" {
		return found, err
	}
	q.User = "ann"
	more, err := m.Full.Search(ctx, tenant, q)
	return append(found, more...), err
}

type cutsTexts struct{ Full }

func (m cutsTexts) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	found, err := m.Full.Search(ctx, tenant, q)
	for i := range found {
		found[i].Text = found[i].Text[:min(len(found[i].Text), 10_000)]
	}
	return found, err
}

type answersAll struct{ Full }

func (m answersAll) Search(ctx context.Context, tenant string, q store.Search) ([]store.Passage, error) {
	q.Limit = min(q.Limit, 1000)
	return m.Full.Search(ctx, tenant, q)
}
