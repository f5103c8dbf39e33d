package openai

import (
	"hash/crc32"
	"unicode/utf8"
)

// A sequence number says where in a turn an event stands, so that a stream can
// go on behind it on any node. It has three parts: the number of a change (23
// bits), a position behind it (20 bits) and a check (10 bits). The position
// counts the events of the change, and from firstByte on the bytes of the answer
// that began after it. The check is a sum of these bytes: a model that was asked
// again after a crash may say something else, and then its answer is sent whole.
//
// Numbers grow, except where the model failed in the middle of an answer and is
// asked again.
type cursor int64

const (
	positionBits = 20
	checkBits    = 10
	firstByte    = 64 // more events than one change has

	maxChange   = 1<<23 - 1
	maxPosition = 1<<positionBits - 1
)

func newCursor(change, position int64, check uint32) cursor {
	return cursor(min(change, maxChange)<<(positionBits+checkBits) | min(position, maxPosition)<<checkBits | int64(check&(1<<checkBits-1)))
}

func (c cursor) change() int64   { return int64(c) >> (positionBits + checkBits) }
func (c cursor) position() int64 { return int64(c) >> checkBits & maxPosition }

// inAnswer reports a cursor in the middle of an answer.
func (c cursor) inAnswer() bool { return c.position() > firstByte && c.position() < maxPosition }

// answer is how far an answer was sent.
type answer struct {
	step   string
	change int64 // the last one before it
	bytes  int64
	sum    uint32
}

func newAnswer(step string, change int64) *answer { return &answer{step: step, change: change} }

// say adds to the answer.
func (a *answer) say(text string) {
	a.bytes += int64(len(text))
	a.sum = crc32.Update(a.sum, crc32.IEEETable, []byte(text))
}

func (a *answer) cursor() cursor { return newCursor(a.change, firstByte+a.bytes, a.sum) }

// cut splits text where a cursor stands in it; whole if it does not.
func (a *answer) cut(text string, c cursor) (before, after string) {
	at := c.position() - firstByte - a.bytes
	if at <= 0 || at >= int64(len(text)) || !utf8.RuneStart(text[at]) {
		return text, ""
	}
	return text[:at], text[at:]
}
