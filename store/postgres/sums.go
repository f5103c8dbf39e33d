package postgres

import (
	"cmp"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Checksums stand before what they cover, as text, so that a body stays readable
// for a person and no statement has a column more.
const sumLength = 16

func appendSum(b []byte, sum int64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[sum>>shift&15])
	}
	return b
}

var errNoSum = errors.New("there is no checksum before it")

// cutSum splits what is stored into its checksum and the rest.
func cutSum(stored []byte) (sum int64, rest []byte, err error) {
	if len(stored) < sumLength {
		return 0, nil, errNoSum
	}
	var raw [sumLength / 2]byte
	if _, err := hex.Decode(raw[:], stored[:sumLength]); err != nil {
		return 0, nil, errNoSum
	}
	for _, b := range raw {
		sum = sum<<8 | int64(b)
	}
	return sum, stored[sumLength:], nil
}

// withSum is a value as it is stored: its checksum, over the value and what it
// belongs to, and then the value.
func withSum(value []byte, of ...any) []byte {
	b := make([]byte, 0, sumLength+len(value))
	return append(appendSum(b, store.SumOf(append(of, value)...)), value...)
}

var errOtherSum = errors.New("it does not match its checksum")

// checked is the value that withSum has stored.
func checked(stored []byte, of ...any) ([]byte, error) {
	sum, value, err := cutSum(stored)
	if err == nil && store.SumOf(append(of, value)...) != sum {
		err = errOtherSum
	}
	return value, err
}

// withLogSum is a head as it is stored: with the sum of the last record it
// holds, from which the records since are followed.
func withLogSum(head []byte, last store.Sum) []byte {
	return withSum(append(appendSum(make([]byte, 0, sumLength+len(head)), int64(last)), head...))
}

// checkedHead splits a stored head, also one that does not match its checksum.
func checkedHead(stored []byte) (head []byte, last store.Sum, err error) {
	value, err := checked(stored)
	sum, head, cutErr := cutSum(value)
	return head, store.Sum(sum), cmp.Or(err, cutErr)
}

// rowSum covers what a session's row says of its last version.
func rowSum(tenant, id string, version, seq int64, messages *int64, updatedAt time.Time) int64 {
	count := int64(-1)
	if messages != nil {
		count = *messages
	}
	return store.SumOf(tenant, id, version, seq, count, updatedAt.UnixMicro())
}

func rowDamage(id string) error {
	return &session.CorruptError{ID: id, Path: "row", Reason: "what it says of the last version does not match its checksum"}
}

// commitSum is what the id of a commit is stored with: the record it ends with,
// and all it says.
func commitSum(last store.Sum, i store.CommitInfo) []any {
	return []any{last, i.Version, i.FirstSeq, i.LastSeq, i.Action, i.Actor, i.At.UnixMicro()}
}

// logRow is a row of a log. The body of one that is only passed by is cut to
// its sum.
type logRow struct {
	Seq     int64
	Version int64
	Kind    string
	Body    []byte
}

func (r logRow) logged() store.Logged {
	return store.Logged{Seq: r.Seq, Version: r.Version, Kind: r.Kind}
}

func (r logRow) sum() (store.Sum, error) {
	sum, _, err := cutSum(r.Body)
	return store.Sum(sum), err
}

// follow goes on to the next row of a log.
func follow(chain *store.Chain, r logRow) error {
	sum, err := r.sum()
	if err != nil {
		return &session.CorruptError{ID: chain.ID, Path: "log", Record: r.Seq, Reason: err.Error()}
	}
	return chain.Follow(r.logged(), sum)
}

// followSpans checks rows of a log, in order, that hold all changes of spans up
// to a number, and the change before each span.
func followSpans(id string, rows []logRow, from, to []int64, upTo int64) error {
	for i := range from {
		end := min(to[i], upTo)
		if from[i] > end {
			continue
		}
		chain := store.Chain{ID: id, Seq: from[i] - 1}
		at, found := slices.BinarySearchFunc(rows, from[i]-1, func(r logRow, seq int64) int { return int(r.Seq - seq) })
		if found {
			sum, err := rows[at].sum()
			if err != nil {
				return &session.CorruptError{ID: id, Path: "log", Record: rows[at].Seq, Reason: err.Error()}
			}
			chain.Sum = sum
			at++
		} else if from[i] > 1 {
			return &session.CorruptError{ID: id, Path: "log", Record: from[i] - 1, Reason: "it is missing"}
		}
		for ; at < len(rows) && rows[at].Seq <= end; at++ {
			if err := follow(&chain, rows[at]); err != nil {
				return err
			}
		}
		if err := chain.End(end, chain.Sum); err != nil {
			return err
		}
	}
	return nil
}

// unreadableRecord is the error for a record that cannot be used.
func unreadableRecord(id string, seq int64, err error) error {
	if err == nil || errors.Is(err, session.ErrNewerFormat) {
		return err
	}
	return &session.CorruptError{ID: id, Path: "log", Record: seq, Reason: err.Error()}
}
