"""The status page of somebody else. Serve it with: uvicorn status:app --port 8091."""

from fastapi import FastAPI

app = FastAPI(title="Status")


@app.get("/status/{service}", operation_id="get_status")
async def get_status(service: str) -> dict[str, str]:
    """Get the status of a service."""
    return {"service": service, "status": "degraded" if service == "search" else "operational"}
