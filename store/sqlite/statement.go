package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// statement is prepared once and closed with its connection. It is the driver's
// own, because database/sql would take as long as a small statement itself.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// maxStatements bounds how many statements a connection keeps: those of listings
// are made of what is asked for.
const maxStatements = 256

// with prepares a statement unless it is prepared already, and passes it to use
// while nobody else can use the driver's connection. Statements say LIMIT +?
// rather than LIMIT ?, because SQLite's planner looks at the value of a bare
// limit, and then prepares the statement anew whenever a value is bound.
func (c *conn) with(ctx context.Context, query string, use func(statement) error) error {
	return c.raw.Raw(func(raw any) error {
		if stmt, ok := c.stmts[query]; ok {
			return use(stmt)
		}
		if len(c.stmts) >= maxStatements {
			if err := c.forgetStatements(); err != nil {
				return err
			}
		}
		preparer, ok := raw.(driver.ConnPrepareContext)
		if !ok {
			return fmt.Errorf("a %T prepares no statement", raw)
		}
		made, err := preparer.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		stmt, ok := made.(statement)
		if !ok {
			return errors.Join(fmt.Errorf("a %T takes no context", made), made.Close())
		}
		c.stmts[query] = stmt
		return use(stmt)
	})
}

// exec executes a statement and counts the rows it touched.
func (c *conn) exec(ctx context.Context, query string, args ...any) (n int64, err error) {
	bound, err := bind(args)
	if err != nil {
		return 0, err
	}
	c.wrote = true
	err = c.with(ctx, query, func(stmt statement) error {
		result, err := stmt.ExecContext(ctx, bound)
		if err == nil {
			n, err = result.RowsAffected()
		}
		return err
	})
	return n, err
}

// forgetStatements closes all prepared statements.
func (c *conn) forgetStatements() error {
	var errs []error
	for _, stmt := range c.stmts {
		errs = append(errs, stmt.Close())
	}
	clear(c.stmts)
	return errors.Join(errs...)
}

// rows is the row of a result that is being read.
type rows struct{ values []driver.Value }

// Scan copies the row into variables, as that of database/sql does. Bytes are
// not copied; they belong to the caller.
func (r *rows) Scan(into ...any) error { return scan(r.values, into) }

// each calls read for every row. Read must not use the connection.
func (c *conn) each(ctx context.Context, query string, args []any, read func(*rows) error) error {
	bound, err := bind(args)
	if err != nil {
		return err
	}
	c.wrote = c.wrote || !strings.HasPrefix(query, "SELECT")
	return c.with(ctx, query, func(stmt statement) error {
		result, err := stmt.QueryContext(ctx, bound)
		if err != nil {
			return err
		}
		at := rows{values: make([]driver.Value, len(result.Columns()))}
		for err == nil {
			if err = result.Next(at.values); err == nil {
				err = read(&at)
			}
			if err == nil {
				err = ctx.Err()
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return errors.Join(err, result.Close())
	})
}

// one reads the first row, if there is one.
func (c *conn) one(ctx context.Context, query string, args []any, into ...any) (found bool, err error) {
	err = c.each(ctx, query, args, func(first *rows) error {
		if err := first.Scan(into...); err != nil {
			return err
		}
		found = true
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return found && err == nil, err
}

// bind converts arguments for the driver.
func bind(args []any) ([]driver.NamedValue, error) {
	bound := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		value, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		bound[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
	}
	return bound, nil
}

// scan is what database/sql does for the types this package reads.
func scan(values []driver.Value, into []any) error {
	if len(values) != len(into) {
		return fmt.Errorf("%d columns for %d destinations", len(values), len(into))
	}
	for i, value := range values {
		ok := true
		switch p := into[i].(type) {
		case *int64:
			*p, ok = value.(int64)
		case *int:
			var n int64
			n, ok = value.(int64)
			*p = int(n)
		case *bool:
			var n int64
			n, ok = value.(int64)
			*p = n != 0
		case *store.Sum:
			var n int64
			n, ok = value.(int64)
			*p = store.Sum(n)
		case *float64:
			*p, ok = value.(float64)
		case *string:
			ok = setText(p, value)
		case *store.Scope:
			ok = setText(p, value)
		case *session.Kind:
			ok = setText(p, value)
		case *[]byte:
			*p, ok = bytesOf(value)
		case *sql.RawBytes:
			*p, ok = bytesOf(value)
		case *sql.NullInt64:
			p.Int64, p.Valid = value.(int64)
			ok = p.Valid || value == nil
		case *any:
			*p = value
		case sql.Scanner:
			if err := p.Scan(value); err != nil {
				return err
			}
		default:
			ok = false
		}
		if !ok {
			return fmt.Errorf("column %d: a %T does not go into a %T", i+1, value, into[i])
		}
	}
	return nil
}

// setText and bytesOf read text and blobs alike.
func setText[T ~string](p *T, value driver.Value) (ok bool) {
	switch v := value.(type) {
	case string:
		*p = T(v)
	case []byte:
		*p = T(v)
	default:
		return false
	}
	return true
}

func bytesOf(value driver.Value) ([]byte, bool) {
	if text, ok := value.(string); ok {
		return []byte(text), true
	}
	raw, ok := value.([]byte)
	return raw, ok || value == nil
}
