package main

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/rlgen/rlgen/examples/quickstart/shop"
	"github.com/rlgen/rlgen/ratelimit"
	"github.com/rlgen/rlgen/ratelimit/httplimit"
)

// withGin serves svc by gin. Its handlers report errors with c.Error, and one middleware answers them; net/http's middlewares
// stand around the engine.
//
// The service gets c.Request.Context(), and not c: who is calling stands in the request's context, and a *gin.Context does not look
// there unless the engine has ContextWithFallback.
func withGin(svc shop.Orders) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	if err := engine.SetTrustedProxies(nil); err != nil { // so that c.ClientIP, which nothing here asks, believes no header
		panic(err)
	}
	engine.Use(ginErrors, ginAuthenticate)
	engine.POST("/orders/:item", func(c *gin.Context) {
		id, err := svc.Create(c.Request.Context(), c.Param("item"))
		if err != nil {
			_ = c.Error(err)
			return
		}
		c.JSON(http.StatusCreated, gin.H{"id": id})
	})
	engine.GET("/orders", func(c *gin.Context) {
		n, err := svc.Count(c.Request.Context())
		if err != nil {
			_ = c.Error(err)
			return
		}
		c.JSON(http.StatusOK, gin.H{"orders": n})
	})
	return httplimit.Headers()(identify(engine))
}

// ginAuthenticate is authenticate for gin.
func ginAuthenticate(c *gin.Context) {
	c.Request = c.Request.WithContext(ratelimit.WithUser(c.Request.Context(), caller(c.Request)))
}

// ginErrors answers the last error of a request that has no answer yet.
func ginErrors(c *gin.Context) {
	c.Next()
	last := c.Errors.Last()
	if last == nil || c.Writer.Written() {
		return
	}
	if !httplimit.WriteError(c.Writer, c.Request, last) {
		c.JSON(http.StatusInternalServerError, gin.H{"error": "internal error"})
	}
}
