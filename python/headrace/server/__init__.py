"""I/O: connections, the listener, and the application that joins the parts."""
