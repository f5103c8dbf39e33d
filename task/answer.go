package task

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// answer is what a person said to an approval, as the inbox keeps it.
type answer struct {
	ApprovalID string `json:"approvalId"`
	Action     string `json:"action"`
	Text       string `json:"text,omitempty"` // what was said to a question
	By         string `json:"by"`
	GoOn       bool   `json:"goOn,omitempty"`
	Mark       string `json:"mark"` // tells two who say the same apart
	At         int64  `json:"at"`
}

const answerKey = "answer"

func answerID(approvalID string) string { return "approval:" + approvalID }

func answerOf(item store.Item) (answer, bool) {
	var a answer
	return a, json.Unmarshal(item.Payload[answerKey], &a) == nil && a.ApprovalID != ""
}

// resolve writes the answer into an approval, and is the event that tells it.
func (s answer) resolve(a *session.Approval) (event string) {
	a.Action, a.By = s.Action, s.By
	if s.Action == actionAnswered {
		d := inputDetailsOf(*a)
		d.Answer = s.Text
		a.Status, a.Details = approvalApproved, raw(d)
		return "approval_granted"
	}
	if strings.HasPrefix(s.Action, session.EffectAllow) {
		a.Status = approvalApproved
		return "approval_granted"
	}
	a.Status = approvalDenied
	return "approval_denied"
}

// same reports an approval that was answered so.
func (s answer) same(a session.Approval) bool {
	return a.Action == s.Action && (s.Action != actionAnswered || inputDetailsOf(a).Answer == s.Text)
}

// post puts an answer into the inbox. Where another was there first, it is
// returned as the approval it has led or will lead to.
func (x *Executor) post(ctx context.Context, id string, mine answer) (first *session.Approval, err error) {
	_, err = x.rt.Post(ctx, id, store.Item{ID: answerID(mine.ApprovalID), Kind: store.ItemApproval, Payload: session.Values{answerKey: raw(mine)}})
	if err != nil {
		return nil, err
	}
	items, err := x.rt.Inbox(ctx, id)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if have, ok := answerOf(item); ok && have.ApprovalID == mine.ApprovalID {
			if have.Mark == mine.Mark {
				return nil, nil
			}
			led := session.Approval{ID: have.ApprovalID}
			have.resolve(&led)
			return &led, nil
		}
	}
	s, err := x.load(ctx, id) // somebody has taken it already
	if err != nil {
		return nil, err
	}
	a, err := x.answerable(s, mine.ApprovalID)
	if err != nil || mine.same(a) && a.By == mine.By {
		return nil, err
	}
	return &a, nil
}

// How long an answer waits for whoever is about to give the lease back.
const (
	leavingPause = 20 * time.Millisecond
	leavingTries = 150
)

// carryAnswer has the answers that wait take effect. Whoever holds the lease
// takes them itself; one that has left the task waiting is about to let go.
func (x *Executor) carryAnswer(ctx context.Context, id, approvalID string, o RespondOptions) (Reply, error) {
	for range leavingTries {
		err := x.hold(ctx, id, func(ctx context.Context, r *Run) error {
			goOn, err := x.takeAnswers(ctx, r)
			if err != nil || !goOn || o.NoRun {
				return err
			}
			return x.goOn(ctx, r)
		})
		done := !errors.Is(err, session.ErrBusy)
		if done && err != nil {
			return x.replied(ctx, id, ReplyHandled, err)
		}
		s, err := x.load(context.WithoutCancel(ctx), id)
		if err != nil {
			return Reply{}, err
		}
		if a, _ := answeredIn(s, approvalID); done || a.Status != approvalPending {
			return x.replied(ctx, id, ReplyHandled, nil)
		}
		if !waits(*s.Info().Task) {
			break
		}
		if err := sleep(ctx, leavingPause); err != nil {
			break // the answer is in the inbox and will be taken
		}
	}
	return x.replied(ctx, id, ReplyInProgress, nil)
}
