package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/session"
)

// Memories keeps what users and agents remember from one session to the next,
// and finds passages of transcripts and entries by their words. What a session
// remembers for itself is in its own state. Every call stays within one tenant:
// data of another tenant looks as if it did not exist. Every method returns
// InvalidError for an owner (Owner.Check) or a key (CheckEntryKey) that breaks
// its rules. ConflictErrors carry the key as ID.
type Memories interface {
	// Remember writes the next version of an entry; earlier ones stay readable.
	// InvalidError as Memo.Check; ConflictError stale_entry if Memo.IfVersion is
	// not the current version, 0 for none. A tool call, identified by its session
	// and call id, that has written this key before writes nothing and gets what
	// it wrote then; if that was forgotten, it gets the newest version, or an
	// Entry of version 0 if there is none.
	Remember(ctx context.Context, o Owner, m Memo) (Entry, error)

	// Entry reads an entry, version 0 for the newest. A forgotten key has none.
	Entry(ctx context.Context, o Owner, key string, version int64) (Entry, bool, error)

	// Entries reads the newest version of each key after one, in the order of
	// their bytes, at most limit (see PageLimit). A prefix stands for whole
	// segments: "a/b" covers "a/b" and "a/b/c" but not "a/bc"; "" is all.
	// InvalidError for a prefix that cannot be a key.
	Entries(ctx context.Context, o Owner, prefix, after string, limit int) ([]Entry, error)

	// Forget removes every version of an entry for good and reports whether there
	// was one. When the key is written again its versions continue, and the tool
	// calls that wrote it stay known. ConflictError stale_entry if ifVersion is
	// not nil and not the current version, 0 for none.
	Forget(ctx context.Context, o Owner, key string, ifVersion *int64) (bool, error)

	// ForgetAll removes all entries of an owner, or with dry only counts them.
	// Afterwards versions begin at 1 again, and no tool call is known.
	ForgetAll(ctx context.Context, o Owner, dry bool) (int, error)

	// ForgetTranscripts takes everything that was said so far in the sessions of a
	// user, deleted ones and forks too, out of Search, Unembedded and Nearest for
	// good, and counts those sessions, or with dry only counts them. No rebuilt
	// index has it again; what is said later is found. Transcripts stay as they
	// are. After an error some of them may be left; call it again.
	ForgetTranscripts(ctx context.Context, tenant, user string, dry bool) (int, error)

	// Expired lists the newest entries of a tenant that have expired at an
	// instant, the earliest first, at most limit (see PageLimit). They stay
	// readable until they are forgotten.
	Expired(ctx context.Context, tenant string, at time.Time, limit int) ([]OwnedEntry, error)

	// Search finds the passages that hold the words, in the order of
	// Passage.Compare. A message is found as soon as it is durable, until it is
	// discarded or its session is deleted or purged; a clear or a rewind takes
	// effect as soon as it is durable, too. Of an entry the newest version is
	// found. A message that a session shares with its forks is found once: in
	// Search.Session if that is among them, else in the first by id. Sessions that
	// do not exist or cannot be read hold nothing. InvalidError as Search.Check.
	Search(ctx context.Context, tenant string, q Search) ([]Passage, error)
}

// Scope is the kind of an owner.
type Scope string

// The kinds of owner whose memory is kept outside of sessions.
const (
	ScopeUser  Scope = "user"
	ScopeAgent Scope = "agent"
	ScopeSpace Scope = "space"
)

// Owner is a user, an agent or a space of one tenant.
type Owner struct {
	Tenant string
	Scope  Scope
	Name   string // the user's id, the agent's or the space's name
}

// maxOwner bounds an owner's name, in bytes. Every valid user id and agent name
// fits.
const maxOwner = 256

// Check refuses an owner whose parts break their rules.
func (o Owner) Check() error {
	if err := session.CheckTenant(o.Tenant); err != nil {
		return err
	}
	if o.Scope != ScopeUser && o.Scope != ScopeAgent && o.Scope != ScopeSpace {
		return &session.InvalidError{Field: "scope", Reason: fmt.Sprintf("%q is not user, agent or space", o.Scope)}
	}
	if o.Name == "" || len(o.Name) > maxOwner || !plain(o.Name) {
		return &session.InvalidError{Field: string(o.Scope), Reason: fmt.Sprintf("%q is not 1 to %d bytes of UTF-8 without control characters", o.Name, maxOwner)}
	}
	return nil
}

// plain reports whether s is valid UTF-8 without control characters.
func plain(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }

// Entry is one version of something remembered.
type Entry struct {
	Key       string
	Value     json.RawMessage // any JSON value, null too
	Labels    *session.Labels // of this version, nil for none
	Version   int64           // counts from 1
	CreatedAt time.Time       // of the key's first version since it was last forgotten
	UpdatedAt time.Time       // of this version
	SessionID string          // that wrote it, "" for none
}

// OwnedEntry is an entry and whose it is.
type OwnedEntry struct {
	Owner Owner
	Entry
}

// Memo is an entry to be written.
type Memo struct {
	Key       string
	Value     json.RawMessage
	Labels    *session.Labels
	IfVersion *int64 // nil: whatever is there; 0: there must be nothing
	SessionID string
	CallID    string // of the session's tool call that writes it, "" for none
	At        time.Time
}

const (
	maxEntryKey   = 256
	maxEntryValue = 256 << 10
	maxCallID     = 1024
)

// Check returns a copy of the memo as a store keeps it, or an InvalidError.
func (m Memo) Check() (Memo, error) {
	if err := CheckEntryKey(m.Key); err != nil {
		return m, err
	}
	if m.IfVersion != nil && *m.IfVersion < 0 {
		return m, &session.InvalidError{Field: "version", Reason: fmt.Sprintf("%d is negative", *m.IfVersion)}
	}
	if m.SessionID != "" {
		if err := session.CheckID(m.SessionID); err != nil {
			return m, err
		}
	}
	if len(m.CallID) > maxCallID || !plain(m.CallID) {
		return m, &session.InvalidError{Field: "callId", Reason: fmt.Sprintf("%.80q is not at most %d bytes of UTF-8 without control characters", m.CallID, maxCallID)}
	}
	labels, err := m.Labels.Normal()
	if err != nil {
		return m, err
	}
	if m.Value == nil {
		m.Value = json.RawMessage("null")
	}
	value, err := session.CompactJSON("value of "+strconv.Quote(m.Key), m.Value)
	switch {
	case err != nil:
		return m, err
	case len(value) > maxEntryValue:
		return m, &session.InvalidError{Field: "value", Reason: fmt.Sprintf("of %q has %d bytes, at most %d are kept", m.Key, len(value), maxEntryValue)}
	}
	m.Value, m.Labels, m.At = value, labels, session.Instant(m.At)
	return m, nil
}

// CheckEntryKey refuses what cannot be the key of an entry. A key has 1 to 256
// bytes of UTF-8 without control characters, in segments separated by slashes, of
// which none is empty, "." or "..".
func CheckEntryKey(key string) error {
	refuse := func(reason string) error {
		return &session.InvalidError{Field: "key", Reason: fmt.Sprintf("%q %s", key, reason)}
	}
	switch {
	case key == "" || len(key) > maxEntryKey:
		return refuse(fmt.Sprintf("is not 1 to %d bytes", maxEntryKey))
	case !utf8.ValidString(key):
		return refuse("is not valid UTF-8")
	case !plain(key):
		return refuse("has a control character")
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return refuse(fmt.Sprintf("has the segment %q", segment))
		}
	}
	return nil
}

// Covers reports whether a prefix of whole segments covers a key.
func Covers(prefix, key string) bool {
	return prefix == "" || key == prefix || strings.HasPrefix(key, prefix+"/")
}

// Search asks for passages by the words they hold. It needs at least one place
// to search; a passage in several of them is found once.
type Search struct {
	Words []string // as Words makes them, at least one
	Least int      // how many of them a passage must hold; 0: one
	Limit int      // 0: 50; at most 1000

	Session string   // the transcript of this session
	User    string   // this user's entries, and the transcripts of their sessions
	Agent   string   // this agent's entries
	Spaces  []string // the entries of these spaces

	Everywhere bool // the transcripts of all sessions; only by words

	Cleared bool // also messages that a clear or a rewind has removed from the transcript
	Trace   bool // also messages of steps that were not a final response
}

// Check returns the search with its defaults filled in, or an InvalidError.
func (q Search) Check() (Search, error) {
	q.Words = slices.Compact(slices.Sorted(slices.Values(q.Words)))
	if len(q.Words) == 0 || q.Words[0] == "" {
		return q, &session.InvalidError{Field: "words", Reason: "there is nothing to search for: give at least one word"}
	}
	if q.Session == "" && q.User == "" && q.Agent == "" && len(q.Spaces) == 0 && !q.Everywhere {
		return q, &session.InvalidError{Field: "search", Reason: "there is nowhere to search: give a session, a user, an agent or a space, or search everywhere"}
	}
	if q.Session != "" {
		if err := session.CheckID(q.Session); err != nil {
			return q, err
		}
	}
	for _, o := range q.Owners(session.DefaultTenant) { // the tenant is checked elsewhere
		if err := o.Check(); err != nil {
			return q, err
		}
	}
	if q.Least < 0 || q.Limit < 0 || q.Limit > maxLimit {
		return q, &session.InvalidError{Field: "search", Reason: fmt.Sprintf("least %d or limit %d is out of bounds", q.Least, q.Limit)}
	}
	q.Least = max(q.Least, 1)
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	return q, nil
}

// OfUser returns the user whose transcripts are searched, and whether there are
// any but those of the searched session. The user is "" where it is everybody.
func (q Search) OfUser() (user string, several bool) {
	if q.Everywhere {
		return "", true
	}
	return q.User, q.User != ""
}

// Owners are the owners whose entries are searched.
func (q Search) Owners(tenant string) []Owner {
	var owners []Owner
	if q.User != "" {
		owners = append(owners, Owner{Tenant: tenant, Scope: ScopeUser, Name: q.User})
	}
	if q.Agent != "" {
		owners = append(owners, Owner{Tenant: tenant, Scope: ScopeAgent, Name: q.Agent})
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(q.Spaces))) {
		owners = append(owners, Owner{Tenant: tenant, Scope: ScopeSpace, Name: name})
	}
	return owners
}

// Found counts how many of the searched words a text holds.
func (q Search) Found(text string) int {
	have := Words(text)
	n := 0
	for _, word := range q.Words {
		if _, ok := slices.BinarySearch(have, word); ok {
			n++
		}
	}
	return n
}

// Passage is a message or an entry that was found.
type Passage struct {
	// Of a message: its session, number and id.
	SessionID string
	Seq       int64
	MessageID string

	// Of an entry: whose it is, its key and version, and no session.
	Owner   Owner
	Key     string
	Version int64

	Text  string
	Found int       // of a search by words: how many it holds
	Score float64   // of one by meaning: how near it is, 0 to 1
	Part  int       // of one by meaning: which of its vectors is so near, from 0
	At    time.Time // when it was written: Message.CreatedAt, Entry.UpdatedAt
}

// Compare orders passages: the nearer first, then those with more words, then
// the newer, then messages by session and number, then entries by owner and key.
func (p Passage) Compare(o Passage) int {
	byKind := func(p Passage) string {
		if p.Key == "" {
			return "message\x00" + p.SessionID
		}
		return "remembered\x00" + string(p.Owner.Scope) + "\x00" + p.Owner.Name + "\x00" + p.Key
	}
	switch {
	case p.Score > o.Score:
		return -1
	case p.Score < o.Score:
		return 1
	case p.Found != o.Found:
		return o.Found - p.Found
	case !p.At.Equal(o.At):
		return o.At.Compare(p.At)
	}
	if c := strings.Compare(byKind(p), byKind(o)); c != 0 {
		return c
	}
	return int(max(-1, min(1, p.Seq-o.Seq)))
}

// Rank sorts passages and cuts them to the limit of the search.
func (q Search) Rank(found []Passage) []Passage {
	slices.SortFunc(found, Passage.Compare)
	return found[:min(len(found), q.Limit)]
}

// MessageText returns the searched text of a message: its texts and a tool's
// answer.
func MessageText(m session.Message) string {
	var texts []string
	for _, part := range m.Content {
		if part.Type == session.PartText && part.Text != "" {
			texts = append(texts, part.Text)
		}
	}
	if m.ToolResult != nil && m.ToolResult.Content != "" {
		texts = append(texts, m.ToolResult.Content)
	}
	return strings.Join(texts, "\n")
}

// EntryText returns the text that is shown of a found entry: a string as it is, a
// fact (an object whose "fact" is a string) as that string, any other value as
// JSON.
func EntryText(value json.RawMessage) string {
	if fact, ok := factText(value); ok {
		return fact
	}
	var text string
	if value = bytes.TrimSpace(value); len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// factText returns the text of an entry that is a fact.
func factText(value json.RawMessage) (string, bool) {
	var f struct {
		Fact string `json:"fact"`
	}
	ok := bytes.Contains(value, []byte(`"fact"`)) && json.Unmarshal(value, &f) == nil && f.Fact != ""
	return f.Fact, ok
}

// EntryWords returns the searched text of an entry: its key and its text. The key
// of a fact says nothing.
func EntryWords(key string, value json.RawMessage) string {
	if fact, ok := factText(value); ok {
		return fact
	}
	return key + "\n" + EntryText(value)
}
