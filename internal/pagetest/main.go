// Command pagetest prepares what the tests of the page need.
//
//	pagetest postgres DIR             a PostgreSQL server below DIR, until standard input ends; prints its URL
//	pagetest database URL             a new database of that server; prints its URL
//	pagetest sessions FILE N          N sessions in a SQLite file
//	pagetest messages FILE ID N       a session with N messages in a SQLite file
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgserver"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "postgres":
		return runPostgres(args[1])
	case len(args) == 2 && args[0] == "database":
		return createDatabase(context.Background(), args[1])
	case len(args) == 3 && args[0] == "sessions":
		return fill(args[1], args[2], addSessions)
	case len(args) == 4 && args[0] == "messages":
		return fill(args[1], args[3], func(ctx context.Context, st *sqlite.Store, n int) error { return addMessages(ctx, st, args[2], n) })
	}
	return errors.New("usage: pagetest postgres DIR | database URL | sessions FILE N | messages FILE ID N")
}

func runPostgres(dir string) error {
	server, err := pgserver.StartVolatile(dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	fmt.Println(server.URL())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// createDatabase makes a database with a name of its own.
func createDatabase(ctx context.Context, server string) (err error) {
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	name := "page" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if _, err := c.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return err
	}
	u.Path = "/" + name
	fmt.Println(u)
	return nil
}

// fill opens a database and adds n things.
func fill(file, number string, add func(context.Context, *sqlite.Store, int) error) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	ctx := context.Background()
	st, err := sqlite.Open(ctx, file, sqlite.Config{Synchronous: sqlite.Normal})
	if err != nil {
		return err
	}
	return errors.Join(add(ctx, st, n), st.Close())
}

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// addSessions adds sessions, many at a time so that they share commits. Each is
// a second later than the one before.
func addSessions(ctx context.Context, st *sqlite.Store, n int) error {
	const workers = 64
	var adding sync.WaitGroup
	failures := make([]error, workers)
	for w := range workers {
		adding.Go(func() {
			for i := w; i < n && failures[w] == nil; i += workers {
				failures[w] = addSession(ctx, st, i)
			}
		})
	}
	adding.Wait()
	return errors.Join(failures...)
}

func addSession(ctx context.Context, st *sqlite.Store, i int) error {
	at := day.Add(time.Duration(i) * time.Second)
	s, err := session.New(session.Identity{ID: fmt.Sprintf("s%07d", i), AgentID: "echo", Name: fmt.Sprintf("session %d", i), Tenant: "default"}, session.Definition{Name: "echo"}, session.Seed{}, at)
	if err != nil {
		return err
	}
	_, err = st.Create(ctx, s, store.Commit{ID: s.ID(), Action: "create", At: at})
	return err
}

// addMessages makes a session of questions and answers. The last answer calls a
// tool with a number that JavaScript cannot hold.
func addMessages(ctx context.Context, st *sqlite.Store, id string, n int) error {
	s, err := session.New(session.Identity{ID: id, AgentID: "echo", Name: "long", Tenant: "default"}, session.Definition{Name: "echo"}, session.Seed{}, day)
	if err != nil {
		return err
	}
	if s, err = st.Create(ctx, s, store.Commit{ID: id, Action: "create", At: day}); err != nil {
		return err
	}
	for i := range n {
		at := day.Add(time.Duration(i) * time.Second)
		if s, err = s.With(at, messages(i, n)...); err != nil {
			return err
		}
		if i%500 == 499 || i == n-1 {
			if s, err = st.Save(ctx, s, store.Commit{ID: fmt.Sprintf("%s-%d", id, i), Action: "import", At: at}); err != nil {
				return err
			}
		}
	}
	return nil
}

// messages returns message i of n, with the call that comes before the last.
func messages(i, n int) []session.Change {
	m := session.Message{ID: fmt.Sprintf("m%d", i), Role: session.RoleUser, Content: session.Text(fmt.Sprintf("message number %d", i))}
	if i%2 == 1 {
		m.Role, m.Content = session.RoleAssistant, session.Text(fmt.Sprintf("**answer** number %d\n\n- a\n- b", i))
	}
	if i < n-1 {
		return []session.Change{session.MessageAdded{Message: m}}
	}
	call := session.ToolCall{ID: "c1", Name: "pay", Arguments: []byte(`{"amount":9007199254740993}`)}
	return []session.Change{
		session.MessageAdded{Message: session.Message{
			ID: "call", Role: session.RoleAssistant, ToolCalls: []session.ToolCall{call}, Trace: true,
			Content: session.Content{{Type: session.PartReasoning, Text: "It has to be paid."}},
		}},
		session.MessageAdded{Message: session.Message{
			ID: "result", Role: session.RoleTool, Trace: true,
			ToolResult: &session.ToolResult{CallID: "c1", ToolName: "pay", Content: `{"paid":9007199254740993}`},
		}},
		session.MessageAdded{Message: m},
	}
}
