package store

import (
	"fmt"
	"hash/crc32"
	"reflect"

	"github.com/holdfast-dev/holdfast/session"
)

// Sum is the checksum of a record in a log. Its upper half covers the record
// alone, so that a record that is read alone can be checked. Its lower half
// covers the place of the record and, through the sum of the record before it,
// all that came before. Before the first record of a log that has no parent
// the sum is 0; a fork continues the sums of its parent.
//
// Sums find what a disk, a memory or a hand altered. They are no signature: who
// can write to a store can compute them.
type Sum int64

// castagnoli is the polynomial that processors have an instruction for. It
// finds all but one in four thousand million of random alterations.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sums computes a checksum over several values, each with its length, so that
// no two lists of values have the same bytes.
type sums struct{ crc uint32 }

// number and text compute byte by byte: what they cover is short, and a slice
// for crc32.Update would be allocated each time.
func (s *sums) number(n int64) {
	crc := ^s.crc
	for shift := 56; shift >= 0; shift -= 8 {
		crc = castagnoli[byte(crc)^byte(n>>shift)] ^ crc>>8 //nolint:gosec // the bits are what counts
	}
	s.crc = ^crc
}

func (s *sums) text(t string) {
	s.number(int64(len(t)))
	crc := ^s.crc
	for i := range len(t) {
		crc = castagnoli[byte(crc)^t[i]] ^ crc>>8 //nolint:gosec // the bits are what counts
	}
	s.crc = ^crc
}

func (s *sums) bytes(b []byte) {
	s.number(int64(len(b)))
	s.crc = crc32.Update(s.crc, castagnoli, b)
}

// SumOf is a checksum over numbers, texts and bytes that are stored together.
// It is never 0, which stands for a value that was never set.
func SumOf(values ...any) int64 {
	var s sums
	for _, value := range values {
		switch v := value.(type) {
		case int64:
			s.number(v)
		case Sum:
			s.number(int64(v))
		case string:
			s.text(v)
		case []byte:
			s.bytes(v)
		default:
			panic("store: a checksum over a " + reflect.TypeOf(value).String()) // fmt would have every value allocated
		}
	}
	return int64(s.crc) + 1
}

// Logged is a record as a log keeps it. A bare body has neither its number nor
// its kind and time, which the store keeps elsewhere.
type Logged struct {
	Seq     int64
	Version int64
	Kind    string
	Body    []byte
	Bare    bool
	At      int64 // where the body is bare
}

// Next returns the sum of the record that follows the one with sum s.
func (s Sum) Next(r Logged) Sum { return s.next(r.Seq, r.Version, r.Kind, r.sum()) }

func (s Sum) next(seq, version int64, kind string, record uint32) Sum {
	place := sums{}
	place.number(int64(s))
	place.number(seq)
	place.number(version)
	place.text(kind)
	place.number(int64(record))
	return Sum(int64(record)<<32 | int64(place.crc))
}

func (r Logged) sum() uint32 {
	var s sums
	if r.Bare {
		s.number(r.Seq)
		s.text(r.Kind)
		s.number(r.At)
	}
	s.bytes(r.Body)
	return s.crc
}

// Check returns a CorruptError if the record is not the one that has this sum.
func (s Sum) Check(id string, r Logged) error {
	if uint64(s)>>32 != uint64(r.sum()) { //nolint:gosec // the upper half
		return &session.CorruptError{ID: id, Path: "log", Record: r.Seq, Reason: "what is stored does not match its checksum"}
	}
	return nil
}

// Chain follows the records of a log in order and finds those that are missing,
// altered or of another place. ID names the session in errors.
type Chain struct {
	ID  string
	Seq int64 // of the last record followed
	Sum Sum   // of that record
}

// Follow goes on to the next record of the log, which has this sum. The body
// is not needed; Check is for the body.
func (c *Chain) Follow(r Logged, sum Sum) error {
	switch {
	case r.Seq <= c.Seq:
		return c.corrupt(r.Seq, "it is there twice")
	case r.Seq != c.Seq+1:
		return c.corrupt(c.Seq+1, "it is missing")
	case c.Sum.next(r.Seq, r.Version, r.Kind, uint32(uint64(sum)>>32)) != sum: //nolint:gosec // the upper half
		return c.corrupt(r.Seq, "it does not follow the record before it: the checksum of one of them, or its version or kind, was altered")
	}
	c.Seq, c.Sum = r.Seq, sum
	return nil
}

// End checks that the records followed end with this one, as the session says.
func (c *Chain) End(seq int64, sum Sum) error {
	switch {
	case c.Seq < seq:
		return c.corrupt(c.Seq+1, fmt.Sprintf("it is missing, and the log must go on to record %d", seq))
	case c.Seq > seq:
		return c.corrupt(c.Seq, fmt.Sprintf("the session says that its log ends with record %d", seq))
	case c.Sum != sum:
		return c.corrupt(c.Seq, "it is not the record that the session says its log ends with")
	}
	return nil
}

func (c *Chain) corrupt(seq int64, reason string) error {
	return &session.CorruptError{ID: c.ID, Path: "log", Record: seq, Reason: reason}
}
