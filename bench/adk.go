//go:build peers

package main

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"sync/atomic"

	"google.golang.org/adk/agent"
	"google.golang.org/adk/agent/llmagent"
	"google.golang.org/adk/model"
	"google.golang.org/adk/runner"
	"google.golang.org/adk/session"
	"google.golang.org/adk/session/database"
	"google.golang.org/genai"
	gormpostgres "gorm.io/driver/postgres"
	gormsqlite "gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	_ "modernc.org/sqlite" // the driver, the same as ours
)

var adkContender = Contender{Name: "ADK Go", open: openADK}

const app = "bench"

// adk is ADK Go's session service for databases with its runner.
type adk struct {
	db       *sql.DB
	sessions session.Service
	runner   *runner.Runner
	model    *adkModel
}

func openADK(ctx context.Context, p place) (_ system, err error) {
	s := &adk{model: &adkModel{answer: p.answer}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	var dialect gorm.Dialector
	if p.store == storeSQLite {
		// One connection: a second writer would only be told that the database is busy.
		if s.db, err = openPeerSQLite(p.file); err != nil {
			return nil, err
		}
		dialect = gormsqlite.New(gormsqlite.Config{Conn: s.db})
	} else {
		dialect = gormpostgres.Open(p.url)
	}
	if s.sessions, err = database.NewSessionService(dialect, &gorm.Config{PrepareStmt: true, Logger: logger.Discard}); err != nil {
		return nil, err
	}
	if err := database.AutoMigrate(s.sessions); err != nil {
		return nil, err
	}
	a, err := llmagent.New(llmagent.Config{Name: "bench", Model: s.model})
	if err != nil {
		return nil, err
	}
	s.runner, err = runner.New(runner.Config{AppName: app, Agent: a, SessionService: s.sessions})
	return s, err
}

// openPeerSQLite opens a database that flushes as often as ours.
func openPeerSQLite(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_time_format=sqlite")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

func (s *adk) create(ctx context.Context, id string) (conversation, error) {
	made, err := s.sessions.Create(ctx, &session.CreateRequest{AppName: app, UserID: user, SessionID: id})
	if err != nil {
		return nil, err
	}
	return &adkConversation{in: s.sessions, of: made.Session}, nil
}

type adkConversation struct {
	in session.Service
	of session.Session
	n  int
}

func (c *adkConversation) append(ctx context.Context, text string) error {
	e := session.NewEventWithContext(ctx, "invocation")
	e.Author, e.Content = "user", genai.NewContentFromText(text, genai.RoleUser)
	if c.n%2 == 1 {
		e.Author, e.Content = "bench", genai.NewContentFromText(text, genai.RoleModel)
	}
	c.n++
	return c.in.AppendEvent(ctx, c.of, e)
}

func (s *adk) load(ctx context.Context, id string) (int, error) {
	got, err := s.sessions.Get(ctx, &session.GetRequest{AppName: app, UserID: user, SessionID: id})
	if err != nil {
		return 0, err
	}
	return got.Session.Events().Len(), nil
}

func (s *adk) list(ctx context.Context, _ int) (int, error) {
	got, err := s.sessions.List(ctx, &session.ListRequest{AppName: app, UserID: user})
	if err != nil {
		return 0, err
	}
	return len(got.Sessions), nil
}

func (s *adk) turn(ctx context.Context, id, text string) (int, error) {
	for _, err := range s.runner.Run(ctx, user, id, genai.NewContentFromText(text, genai.RoleUser), agent.RunConfig{}) {
		if err != nil {
			return 0, err
		}
	}
	return int(s.model.shown.Load()), nil
}

func (s *adk) fork(context.Context, string, string) error { return errors.ErrUnsupported }

// close ends what can be ended: the service has no Close for connections that it
// opened itself.
func (s *adk) close() error {
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}

type adkModel struct {
	answer string
	shown  atomic.Int64
}

func (*adkModel) Name() string { return "instant" }

func (m *adkModel) GenerateContent(_ context.Context, r *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	m.shown.Store(int64(len(r.Contents)))
	return func(yield func(*model.LLMResponse, error) bool) {
		yield(&model.LLMResponse{
			Content: genai.NewContentFromText(m.answer, genai.RoleModel), TurnComplete: true, FinishReason: genai.FinishReasonStop,
		}, nil)
	}
}
