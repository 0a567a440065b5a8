"""The Python SDK: `client.NemoClient`, its errors, retries and watches."""
